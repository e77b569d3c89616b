package atomicfile

import "golang.org/x/sys/windows"

// free returns the bytes available to this user in dir; ok = false: unknown.
func free(dir string) (bytes uint64, ok bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	err = windows.GetDiskFreeSpaceEx(path, &bytes, nil, nil)
	return bytes, err == nil
}
