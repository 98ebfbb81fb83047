//go:build race

package crash

const raceDetector = true
