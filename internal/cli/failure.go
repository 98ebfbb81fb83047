package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/varvelog/varve"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// asked makes a usage error of what the engine says of a name, a config or a number
// of partitions that it was asked for. The same errors can be about what lies in the
// data directory; those are failures.
func asked(err error) error {
	var name *varve.NameError
	var config *varve.ConfigError
	if errors.As(err, &name) || errors.As(err, &config) {
		return &usageError{err}
	}
	return err
}

// hintedError is an error together with what its reader can do about it, which
// is printed behind everything that is said about the error on its way.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

func hintf(err error, format string, args ...any) error {
	return &hintedError{err: err, hint: fmt.Sprintf(format, args...)}
}

// exit prints err, if there is one to print, and returns the exit code for it.
func (a *app) exit(err error) int {
	if err == nil {
		err = a.out.err // help is written by nobody who could return it
	}
	if err == nil || errors.Is(err, errOutputClosed) {
		return 0
	}
	text := oneLine(err.Error())
	if hint := hintFor(err); hint != "" {
		text += " (" + hint + ")"
	}
	fmt.Fprintln(a.err, "varve: "+text)
	var sig *signalError
	var usage *usageError
	switch {
	case errors.As(err, &sig):
		return sig.exitCode()
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailure
}

// oneLine keeps the promise that an error is one line, whatever is in it.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// hintFor is the hint that err brings, or the one for the engine's errors that say
// only what is wrong.
func hintFor(err error) string {
	var (
		hinted *hintedError
		locked *varve.LockedError
		tooBig *varve.TooLargeError
		input  *inputError
		name   *varve.NameError
		config *varve.ConfigError
	)
	switch {
	case errors.As(err, &hinted):
		return hinted.hint
	case errors.As(err, &locked):
		return "one process at a time: stop that one, or name another directory with --dir"
	case errors.As(err, &tooBig) && tooBig.Limit == maxInflated:
		return "publish fewer records at once, or smaller ones"
	case errors.As(err, &tooBig), errors.Is(err, errLineTooLong):
		return "raise the limit with: varve topic alter NAME --config max.message.bytes=N"
	case errors.As(err, &name):
		return "choose a name such as orders, orders-eu or orders.v2"
	case errors.As(err, &config) && config.Key == "partitions":
		return "give another number with --partitions"
	case errors.Is(err, varve.ErrReadOnly):
		return "the disk failed a write: look at it, then run the command again"
	case errors.Is(err, fs.ErrPermission) && !errors.As(err, &input):
		return "check who owns the directory, or name another with --dir"
	}
	return ""
}

// flagText says what is wrong with a flag in the words of the command line, not in
// those of the library that reads flags.
func flagText(err error) string {
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		return fmt.Sprintf("--%s needs a value", missing.GetFlag().Name)
	}
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err.Error()
	}
	var number *strconv.NumError
	var usage *usageError
	want := "want a whole number, in decimal"
	switch {
	case errors.As(err, &usage):
		want = usage.Error()
	case value.GetFlag().Value.Type() == "duration":
		want = "want a time, such as 3s or 500ms"
	case !errors.As(err, &number):
		return err.Error()
	case errors.Is(number, strconv.ErrRange):
		want = "the number is too large or too small"
	case value.GetFlag().Value.Type() == "bool":
		want = "want true or false"
	}
	return fmt.Sprintf("--%s %q: %s", value.GetFlag().Name, value.GetValue(), want)
}

// exactArgs is cobra.ExactArgs with the names of what is missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s needs %s (see: %s --help)", c.CommandPath(), strings.Join(names[len(args):], " and "), c.CommandPath())
		}
		if len(args) > len(names) {
			return usagef("%s takes no argument %q (see: %s --help)", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}

// leastArgs is for commands whose last argument may be repeated or left out.
func leastArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return exactArgs(names...)(c, args)
		}
		return nil
	}
}

// interrupted is the signal that ended ctx, or nil.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
