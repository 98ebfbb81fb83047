package docs

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var rangeForm = regexp.MustCompile(`^(-?\d+) to (\d+|2\^31-1|2\^63-1)$`)

// bounds turns the range of a setting, "1 to 2^31-1" or a list of words, into
// values that must be taken and values that must not.
func bounds(t *testing.T, key, text string) (good, bad []string) {
	t.Helper()
	if m := rangeForm.FindStringSubmatch(text); m != nil {
		least, most := bigOf(m[1]), bigOf(m[2])
		one := big.NewInt(1)
		good = []string{least.String(), most.String()}
		bad = []string{new(big.Int).Sub(least, one).String(), new(big.Int).Add(most, one).String(), "", "x", " 1", "1.5"}
		return good, bad
	}
	if text == "group ids" {
		return []string{"", "a", "b,a"}, []string{",", "a,", "a,,b", "a,a"}
	}
	for _, m := range codeForm.FindAllStringSubmatch(text, -1) {
		good = append(good, m[1])
	}
	if len(good) == 0 {
		t.Fatalf("docs/configuration.md: %s has the range %q, which is none", key, text)
	}
	return good, []string{"", "x", strings.ToUpper(good[0]) + "x"}
}

func bigOf(text string) *big.Int {
	switch text {
	case "2^31-1":
		return big.NewInt(math.MaxInt32)
	case "2^63-1":
		return big.NewInt(math.MaxInt64)
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return big.NewInt(n)
}

func TestBoundsOfARange(t *testing.T) {
	good, bad := bounds(t, "k", "-1 to 2^63-1")
	if strings.Join(good, " ") != "-1 9223372036854775807" || bad[0] != "-2" || bad[1] != "9223372036854775808" {
		t.Errorf("good %q, bad %q", good, bad)
	}
	good, _ = bounds(t, "k", "`a`, `b`")
	if strings.Join(good, " ") != "a b" {
		t.Errorf("good %q", good)
	}
}
