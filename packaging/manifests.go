package main

import (
	"bytes"
	"embed"
	"maps"
	"slices"
	"text/template"
)

//go:embed templates
var templates embed.FS

// manifestOf are the files of package managers that name archives of the release by URL and digest.
var manifestOf = map[string]string{"lowpack.rb": "templates/lowpack.rb", "lowpack.json": "templates/lowpack.json"}

// manifests writes the formula of Homebrew and the manifest of Scoop.
func manifests(r *release) error {
	list, err := r.published()
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for _, d := range list {
		sums[d.name] = d.sum
	}
	type archive struct{ Name, URL, SHA256 string }
	data := struct {
		Version, Home, Summary string
		Archive                map[string]archive
	}{r.version, home, summary, map[string]archive{}}
	for _, b := range tool.builds() {
		name := r.archiveFile(b)
		url := home + "/releases/download/v" + r.version + "/" + name
		data.Archive[b.os+"_"+b.arch] = archive{r.archiveName(b), url, sums[name]}
	}
	for _, name := range slices.Sorted(maps.Keys(manifestOf)) {
		text, err := fill(manifestOf[name], data)
		if err != nil {
			return err
		}
		if err := r.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// fill executes one of the templates.
func fill(name string, data any) ([]byte, error) {
	t, err := template.New("").Option("missingkey=error").ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Templates()[0].Execute(&b, data)
	return b.Bytes(), err
}
