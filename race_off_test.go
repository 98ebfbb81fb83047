//go:build !race

package varve_test

const raceDetector = false
