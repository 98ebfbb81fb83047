package main

import (
	"crypto/sha256"
	"fmt"

	"github.com/varvelog/varve/internal/vfs"
)

// digest tells one content of a disk from another. What the lock says is left out: it
// names the process.
func digest(m *vfs.Mem) string {
	sum := sha256.New()
	for _, name := range m.Files() {
		data, err := m.ReadFile(name)
		if err != nil || name == "LOCK" {
			data = nil
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6])
}
