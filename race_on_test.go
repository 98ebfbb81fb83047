//go:build race

package varve_test

const raceDetector = true // it costs memory and time that tests must not take for the engine's
