package atomicfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// CheckName returns an error for a name that the operating system would resolve to something else.
func CheckName(target string) error {
	if runtime.GOOS != "windows" {
		return nil
	}
	return Failed(windowsName(filepath.Base(target)))
}

// devices matches the names that Windows reserves for devices, with any extension (Microsoft, "Naming Files, Paths, and
// Namespaces").
var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?$`)

// windowsName returns an error for a name under which Windows opens a device, a stream of another file, or a file
// without the trailing dots and spaces.
func windowsName(name string) error {
	why := ""
	switch {
	case name == "." || name == "..":
		return nil // a directory: not decided here
	case devices.MatchString(name):
		why = "Windows reserves this name for a device"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		why = "Windows drops trailing dots and spaces"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*`, r) }):
		why = `Windows names cannot contain control characters or <>:"|?*`
	default:
		return nil
	}
	return fmt.Errorf("invalid output name %q: %s; choose another name", name, why)
}
