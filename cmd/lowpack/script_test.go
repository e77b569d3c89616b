package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs every command line of testdata/script as a user would type it.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := smallCheckpoint(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("MODELS", root)
			e.Setenv("SMALL", checkpoint)
			e.Setenv("LOWPACK_ISA", os.Getenv("LOWPACK_ISA"))
			return nil
		},
	})
}
