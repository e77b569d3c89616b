// Package version names this program: the tool field of every packed file, and `lowpack version`.
package version

import "strings"

// Version follows semantic versioning; CHANGELOG.md says what changed. One commit has the number of a release, which
// its tag repeats (v0.2.0); the commit after it names the next one with -dev (0.2.1-dev), to which packages and lowpack
// version add the revision. The number is in the source alone, so that no flag or tag changes what packed files record.
const Version = "0.2.0"

// Full is a version with the commit of the source where many commits have it: between two releases. Packages have the
// same (packaging/release.go, of another module).
func Full(version, revision string) string {
	if !strings.HasSuffix(version, "-dev") || revision == "" {
		return version
	}
	commit, changed, dirty := strings.Cut(revision, "+")
	version += "+" + commit[:min(12, len(commit))]
	if dirty {
		version += "." + changed
	}
	return version
}

// Date is the date of the version, in manual pages and of the files in packages.
const Date = "2026-11-26"

// Revision is the commit of the source; the linker sets it (see Makefile).
var Revision string

// Tool is the name that packed files record. It changes exactly when the bytes that convert writes may change.
const Tool = "lowpack " + Version
