// Files does to a file on Windows what other programs may do. From the line "open" until standard input ends, `files
// open PATH` has it open as most programs have, `files lock PATH` shares it with nobody, and `files share PATH` lets
// others remove it too; `files short PATH` prints its path in names of 8.3.
package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

func main() {
	verb, path := os.Args[1], os.Args[2]
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		switch verb {
		case "open":
			err = hold(name, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE)
		case "lock":
			err = hold(name, 0)
		case "share":
			err = hold(name, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE)
		case "short":
			short := make([]uint16, windows.MAX_LONG_PATH)
			_, err = windows.GetShortPathName(name, &short[0], uint32(len(short)))
			fmt.Print(windows.UTF16ToString(short))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, verb, path, err)
		os.Exit(1)
	}
}

func hold(name *uint16, share uint32) error {
	const existing, normal = windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL
	_, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, existing, normal, 0)
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
