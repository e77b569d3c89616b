// Package lint holds tests about the module as a whole: which package may import which, which types its APIs may mention,
// and what its text may not say.
package lint
