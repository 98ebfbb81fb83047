package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// whole are the numbers that flags have.
type whole interface{ ~int | ~int64 }

// numberFlag is a whole number, in decimal: unlike the flag library's own it takes
// no 0x10, no 1_000, and 010 for ten, as everybody means it who copies an offset out
// of the name of a file.
type numberFlag[N whole] struct{ to *N }

// numberVar makes a flag of a number.
func numberVar[N whole](flags *pflag.FlagSet, to *N, name string, value N, usage string) {
	*to = value
	flags.Var(&numberFlag[N]{to}, name, usage)
}

func (f *numberFlag[N]) Type() string   { return "number" }
func (f *numberFlag[N]) String() string { return strconv.FormatInt(int64(*f.to), 10) }

func (f *numberFlag[N]) Set(s string) error {
	n, err := parseNumber[N](s)
	if err == nil {
		*f.to = n
	}
	return err
}

// parseNumber reads a number; errors are a *strconv.NumError.
func parseNumber[N whole](s string) (N, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && int64(N(n)) != n {
		err = &strconv.NumError{Func: "ParseInt", Num: s, Err: strconv.ErrRange}
	}
	return N(n), err
}

// numbersFlag is a list of numbers: the flag may be repeated, and have several with
// commas between.
type numbersFlag []int

func (f *numbersFlag) Type() string   { return "numbers" }
func (f *numbersFlag) String() string { return "" }

func (f *numbersFlag) Set(s string) error {
	for _, part := range strings.Split(s, ",") {
		n, err := parseNumber[int](part)
		if err != nil {
			return err
		}
		*f = append(*f, n)
	}
	return nil
}
