// Package version names this program: the tool field of every packed file, and `lowpack version`.
package version

// Version follows semantic versioning; CHANGELOG.md says what changed.
const Version = "0.1.0"

// Date is that of the version.
const Date = "2026-11-21"

// Revision is the commit of the source; the linker sets it (see Makefile).
var Revision string

// Tool is the name that packed files record. It changes exactly when the bytes that convert writes may change.
const Tool = "lowpack " + Version
