package main

import (
	"os"
	"regexp"
	"strconv"
)

const unknownMemory = 8 << 30 // taken where the system does not tell

var available = regexp.MustCompile(`(?m)^MemAvailable: +(\d+) kB$`)

// freeMemory is what the steps may take together: three quarters of what is free.
func freeMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	if m := available.FindSubmatch(text); m != nil {
		if kB, err := strconv.ParseInt(string(m[1]), 10, 53); err == nil {
			return kB << 10 / 4 * 3
		}
	}
	return unknownMemory
}
