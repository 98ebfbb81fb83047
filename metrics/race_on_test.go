//go:build race

package metrics_test

const raceDetector = true // it costs memory and time that tests must not take for the engine's
