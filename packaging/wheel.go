package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
)

// wheels writes one for each platform: the module, and the program, which installers put beside that of Python. No
// library of Go writes wheels, and tools of Python would build the program themselves.
func wheels(r *release) error {
	module, err := readTree(filepath.Join(r.root, "packaging", "python"), "lowpack")
	if err != nil {
		return err
	}
	module = sources(module)
	for _, b := range tool.builds() {
		program, err := r.read(b)
		if err != nil {
			return err
		}
		stem := "lowpack-" + pythonVersion(r.version)
		files := append([]file{{stem + ".data/scripts/" + b.exe(), 0o755, program}}, module...)
		info, err := r.wheelInfo(b.platform)
		if err != nil {
			return err
		}
		files = append(files, below(stem+".dist-info/", info)...)
		files = append(files, record(files, stem+".dist-info/RECORD"))
		data, err := zipOf(files, r.date)
		if err != nil {
			return err
		}
		if err := r.write(stem+"-py3-none-"+b.wheel+".whl", data); err != nil {
			return err
		}
	}
	return nil
}

// sources leaves out what Python writes beside a module that it imports.
func sources(files []file) (kept []file) {
	for _, f := range files {
		if !strings.Contains(f.name, "__pycache__") {
			kept = append(kept, f)
		}
	}
	return kept
}

// pythonVersion is a version in the form of PEP 440.
func pythonVersion(version string) string { return strings.Replace(version, "-dev", ".dev0", 1) }

// wheelInfo are the files that describe a wheel.
func (r *release) wheelInfo(p platform) ([]file, error) {
	metadata, err := fill("templates/METADATA", map[string]string{
		"Version": pythonVersion(r.version), "Summary": summary, "Home": home,
	})
	if err != nil {
		return nil, err
	}
	readme, err := readTree(filepath.Join(r.root, "packaging", "python"), "README.md")
	if err != nil {
		return nil, err
	}
	wheel := "Wheel-Version: 1.0\nGenerator: lowpack\nRoot-Is-Purelib: false\n"
	for tag := range strings.SplitSeq(p.wheel, ".") {
		wheel += "Tag: py3-none-" + tag + "\n"
	}
	return append(below("licenses/", r.licenses),
		file{"METADATA", 0o644, append(metadata, readme[0].data...)},
		file{"WHEEL", 0o644, []byte(wheel)}), nil
}

// record lists the files of a wheel with their digests.
func record(files []file, name string) file {
	var b strings.Builder
	for _, f := range sorted(files) {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&b, "%s,,\n", name)
	return file{name, 0o644, []byte(b.String())}
}
