//go:build interop

package interop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolchain is a Java with Kafka's jars and the programs of java/ on its class
// path. It does not change once made.
type toolchain struct {
	java      string // the executable
	classPath string
}

// run is what one Java process left behind.
type run struct {
	stdout, stderr string
	exit           int
}

// newToolchain fetches the jars named by pom.xml and compiles java/*.java, each
// once: both are kept in $VARVE_INTEROP_CACHE (else varve-interop in the user's
// cache directory) under a name made of their sources.
func newToolchain() (*toolchain, error) {
	java, err := tool("java", "a Java runtime, 17 or later")
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join("java", "*.java"))
	if err != nil {
		return nil, err
	}
	jars, err := cached(cache, "jars", []string{"pom.xml"}, fetchJars)
	if err != nil {
		return nil, err
	}
	jarPath := filepath.Join(jars, "*")
	compile := func(dir string) error { return compileJava(dir, jarPath, sources) }
	classes, err := cached(cache, "classes", append([]string{"pom.xml"}, sources...), compile)
	if err != nil {
		return nil, err
	}
	return &toolchain{java: java, classPath: classes + string(filepath.ListSeparator) + jarPath}, nil
}

func tool(name, what string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH: these tests need %s (go test without -tags interop does not)", name, what)
	}
	return path, nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv("VARVE_INTEROP_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory (set VARVE_INTEROP_CACHE): %w", err)
	}
	return filepath.Join(dir, "varve-interop"), nil
}

// cached returns a directory that fill has filled from sources, at some time.
// It is filled under another name and renamed, so a half-filled one is never
// found, and two processes at once do no harm.
func cached(cache, kind string, sources []string, fill func(dir string) error) (string, error) {
	sum := sha256.New()
	for _, name := range sources {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%x", kind, sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, kind+"-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := fill(fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

func fetchJars(dir string) error {
	mvn, err := tool("mvn", "Apache Maven to fetch Kafka's jars")
	if err != nil {
		return err
	}
	return output(exec.Command(mvn, "-q", "-B", "-f", "pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+dir))
}

func compileJava(dir, jarPath string, sources []string) error {
	javac, err := tool("javac", "a JDK, 17 or later")
	if err != nil {
		return err
	}
	args := append([]string{"-encoding", "UTF-8", "-cp", jarPath, "-d", dir}, sources...)
	return output(exec.Command(javac, args...))
}

// output runs a command that says something only when it fails.
func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// run starts the main class in a directory and waits for it. Only a process
// that could not be started is an error: what an exit code means is the
// caller's to know.
func (k *toolchain) run(dir, class string, args ...string) (run, error) {
	options := []string{"-Xmx512m", "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", k.classPath, class}
	cmd := exec.Command(k.java, append(options, args...)...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		return run{}, fmt.Errorf("run %s: %w", class, err)
	}
	return run{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}, nil
}
