// Package release holds the test that the same source gives the same binary.
package release
