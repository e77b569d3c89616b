package main

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/runtime/engine"
)

// speculations are the non-numeric values of --speculate.
var speculations = []string{"auto", "off"}

// speculateFlag sets how many tokens are drafted ahead; the text does not depend on it.
func speculateFlag() cli.Flag {
	usage := fmt.Sprintf("speculative decoding by prompt lookup, which changes no byte of the text: auto = as many "+
		"tokens as pay, off, or drafts of up to `N` tokens, at most %d", engine.SpeculateMost)
	return like(&cli.StringFlag{Name: "speculate", Usage: usage, DefaultText: "auto",
		Action: func(_ *cli.Context, s string) error {
			_, err := speculation(s)
			return err
		}}, speculations...)
}

// speculation reads the value of --speculate as a Request.Speculate.
func speculation(s string) (int, error) {
	switch s {
	case "", "auto":
		return engine.SpeculateAuto, nil
	case "off":
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > engine.SpeculateMost {
		return 0, usagef("invalid --speculate %q: must be auto, off, or a number of at most %d%s", s,
			engine.SpeculateMost,
			didYouMean(s, speculations))
	}
	return n, nil
}

// draftsText reports how many drafted tokens were accepted; "" = none were drafted.
func draftsText(r engine.Result) string {
	if r.Drafted == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d drafted tokens accepted", r.Accepted, r.Drafted)
}
