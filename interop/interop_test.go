//go:build interop

package interop

import (
	"fmt"
	"os"
	"testing"
)

// kafka runs Kafka's code for every test of the package.
var kafka *toolchain

func TestMain(m *testing.M) {
	var err error
	if kafka, err = newToolchain(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
