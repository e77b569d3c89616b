package atomicfile

import "golang.org/x/sys/windows"

// free returns the bytes that this user can still write in dir; ok is false where nobody knows.
func free(dir string) (bytes uint64, ok bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	err = windows.GetDiskFreeSpaceEx(path, &bytes, nil, nil)
	return bytes, err == nil
}
