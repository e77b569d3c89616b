// Package lint holds tests about the module as a whole: which package may import which, and what its text may not say.
package lint
