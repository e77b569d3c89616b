// Package version names this program: the tool field of every packed file, and `lowpack version`.
package version

// Version follows semantic versioning; CHANGELOG.md says what changed.
const Version = "0.1.0"

// Tool is the name that packed files record. It changes exactly when the bytes that convert writes may change.
const Tool = "lowpack " + Version
