package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is where a run was made.
type Machine struct {
	System     string `json:"system"`
	Processor  string `json:"processor"`
	Cores      int    `json:"cores"`
	MemoryMiB  int64  `json:"memory_mib,omitempty"`
	FileSystem string `json:"file_system,omitempty"` // of the directory that was written to
	Load       string `json:"load,omitempty"`        // runnable tasks before the run
}

// ThisMachine looks around, as far as the system tells.
func ThisMachine(dir string) Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.GOMAXPROCS(0)}
	m.Processor = valueOf("/proc/cpuinfo", "model name")
	fmt.Sscan(valueOf("/proc/meminfo", "MemTotal"), &m.MemoryMiB)
	m.MemoryMiB /= 1024
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", kernel " + strings.TrimSpace(string(kernel))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	m.FileSystem = fileSystem(dir)
	return m
}

// valueOf finds "name : value" in a file of the kernel's.
func valueOf(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem is the kind of the mount that holds dir, an absolute path.
func fileSystem(dir string) (kind string) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	longest := -1
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			longest, kind = len(f[1]), f[2]
		}
	}
	return kind
}

func (m Machine) lines() (lines [][2]string) {
	for _, l := range [][2]string{
		{"system", m.System}, {"processor", m.Processor}, {"cores", fmt.Sprint(m.Cores)},
		{"memory", fmt.Sprintf("%d MiB", m.MemoryMiB)}, {"file system", m.FileSystem}, {"load before", m.Load},
	} {
		if l[1] != "" && l[1] != "0 MiB" {
			lines = append(lines, l)
		}
	}
	return lines
}

// Versions are those of Go and of modules that this program was built with.
func Versions(modules ...string) map[string]string {
	out := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, dep := range info.Deps {
		for _, m := range modules {
			if dep.Path == m {
				out[m] = dep.Version
			}
		}
	}
	return out
}
