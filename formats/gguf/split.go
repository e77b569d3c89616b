package gguf

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/lowpack/lowpack/pack"
)

// MaxSplits is the limit of files per model.
const MaxSplits = 1024

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// SplitNames returns the files of a model, given the name of its first file: one file, or several if the name ends like
// -00001-of-00003.gguf. Naming a later part is an error.
func SplitNames(name string) ([]string, error) {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return []string{name}, nil
	}
	no, _ := strconv.Atoi(m[2]) // cannot fail: five digits
	count, _ := strconv.Atoi(m[3])
	switch {
	case no != 1:
		return nil, fmt.Errorf("%w: %s is a later part of a model; name the first, %s-00001-of-%s.gguf",
			pack.ErrUnsupported,
			name, m[1], m[3])
	case count < 1 || count > MaxSplits:
		return nil, fmt.Errorf("%w: %s: %d parts; at most %d are read", pack.ErrLimit, name, count, MaxSplits)
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i+1, m[3])
	}
	return names, nil
}

// CheckSplit checks that the headers of a model's files, in order, identify them as all of its parts.
func CheckSplit(parts []*Header) error {
	tensors := int64(0)
	for i, h := range parts {
		no, there := h.uint("split.no")
		count, _ := h.uint("split.count")
		if !there && len(parts) == 1 {
			return nil
		}
		if no != int64(i) || count != int64(len(parts)) {
			return fmt.Errorf("%w: part %d of %d says that it is part %d of %d (split.no, split.count)",
				pack.ErrCorrupt, i+1,
				len(parts), no+1, count)
		}
		tensors += int64(len(h.Tensors))
	}
	if n, there := parts[0].uint("split.tensors.count"); there && n != tensors {
		return fmt.Errorf("%w: the parts hold %d tensors, split.tensors.count says %d", pack.ErrCorrupt, tensors, n)
	}
	return nil
}

// uint returns an integer value; −1 = another type.
func (h *Header) uint(key string) (n int64, there bool) {
	v, there := h.Get(key)
	n, ok := v.Int()
	if !ok {
		return -1, there
	}
	return n, there
}
