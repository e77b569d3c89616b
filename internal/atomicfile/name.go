package atomicfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// CheckName refuses a target whose name the operating system would give to something else.
func CheckName(target string) error {
	if runtime.GOOS != "windows" {
		return nil
	}
	return Failed(windowsName(filepath.Base(target)))
}

// devices are the names that Windows keeps for devices, with any extension (Microsoft, "Naming Files, Paths, and
// Namespaces").
var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?$`)

// windowsName says why Windows keeps no file under a name: it opens a device, a stream of another file, or a file
// without the dots and spaces at the end.
func windowsName(name string) error {
	why := ""
	switch {
	case name == "." || name == "..":
		return nil // a directory, which is for others to judge
	case devices.MatchString(name):
		why = "Windows keeps this name for a device"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		why = "Windows drops dots and spaces at the end of a name"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*`, r) }):
		why = `names on Windows have no control characters and none of <>:"|?*`
	default:
		return nil
	}
	return fmt.Errorf("%q cannot be the name of an output: %s; choose another name", name, why)
}
