package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/convert/export/onnx"
	"github.com/lowpack/lowpack/convert/export/openvino"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
)

// exports returns, by family, the formats that its bundled configurations are exported to.
func exports(ctx context.Context) (map[string]string, error) {
	dir, err := os.MkdirTemp("", "modeldocs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	most := map[string][]string{}
	for _, like := range synth.Likes() {
		family, formats, err := exported(ctx, like.Name, filepath.Join(dir, like.Name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", like.Name, err)
		}
		if len(formats) > len(most[family]) {
			most[family] = formats
		}
	}
	to := map[string]string{}
	for family, formats := range most {
		to[family] = strings.Join(formats, ", ")
	}
	return to, nil
}

// exported writes a miniature to each format. Whether llama.cpp has its family is looked up: miniatures have other
// factors of queries than the models that llama.cpp knows.
func exported(ctx context.Context, name, dir string) (family string, to []string, err error) {
	o, err := synth.Find(name)
	if err != nil {
		return "", nil, err
	}
	o.Mini = true
	checkpoint, err := synth.New(o)
	if err != nil {
		return "", nil, err
	}
	source, file := filepath.Join(dir, "checkpoint"), filepath.Join(dir, "model.safetensors")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	if err := checkpoint.Write(ctx, source, nil); err != nil {
		return "", nil, err
	}
	if err := convertFile(ctx, source, file); err != nil {
		return "", nil, err
	}
	family = checkpoint.Description.Family
	if _, err := hf.ArchitectureOf(family); err == nil {
		to = append(to, "GGUF")
	}
	if _, err := onnx.Export(ctx, file, filepath.Join(dir, "onnx"), "", nil); err == nil {
		to = append(to, "ONNX")
	}
	if _, err := openvino.Export(ctx, file, filepath.Join(dir, "openvino"), "", nil); err == nil {
		to = append(to, "OpenVINO")
	}
	return family, to, nil
}

func convertFile(ctx context.Context, source, file string) error {
	p, err := convert.NewPlan(ctx, source, convert.Options{Recipe: packed.Recipe{Golden: "none"}})
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Run(ctx, file)
	return err
}
