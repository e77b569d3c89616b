package verify_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lowpack/lowpack/verify"
)

// Verify up to the decoded weights, and look at what failed.
func Example() {
	report, err := verify.Run(context.Background(), "../testdata/hostile/packed/P00.safetensors",
		verify.Options{Level: verify.Codes})
	if err != nil {
		log.Fatal(err) // the file could not be read at all
	}
	for _, c := range report.Checks {
		if c.Verdict == verify.Fail {
			fmt.Println(c.Level, c.Group, c.Name, c.Rule, c.Reason)
		}
	}
	fmt.Println("verified:", report.OK)
	// Output: verified: true
}
