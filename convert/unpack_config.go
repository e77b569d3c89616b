package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

const configFile = "config.json"

// planFiles takes the embedded files and makes config.json declare the form of the weights.
func (u *unpack) planFiles() (err error) {
	u.files = map[string][]byte{}
	for _, p := range u.in.Manifest().Plain {
		name, ok := strings.CutPrefix(p.Name, packed.FilePrefix)
		if !ok {
			continue
		}
		b, _ := u.in.Embedded(name)
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != p.SHA256 {
			return damaged(p.Name)
		}
		u.files[name] = b
	}
	config, ok := u.files[configFile]
	if !ok && u.form == FormU8 {
		return fmt.Errorf("%w: the file holds weights without a config.json, which form %s needs; others do not",
			pack.ErrUnsupported, u.form)
	}
	if !ok {
		return nil
	}
	if u.model, err = model.Parse(config, nil, nil); err == nil && len(u.model.Outside) > 0 {
		err = fmt.Errorf("%w: config.json is of a model with images, and the file holds its text part alone",
			pack.ErrUnsupported)
	}
	if err != nil {
		return err
	}
	if pooled := u.in.Manifest().Pooling; pooled != nil {
		maps.Copy(u.files, pooled.Files(u.model))
	}
	if scored := u.in.Manifest().Scoring; scored != nil {
		maps.Copy(u.files, scored.Files(u.model))
	}
	u.files[configFile], err = u.declare(config)
	return err
}

// declare rewrites quantization_config, where the form of the weights is another one than it says:
//   - packed codes: scales multiply (autobitlinear), whatever they did before;
//   - floats of a model that is declared to be used with absmean: nothing changes, the floats become master weights;
//   - other floats: nothing is declared, so that nobody takes them for codes or quantizes them again.
func (u *unpack) declare(config []byte) (declared []byte, err error) {
	u.masterWeights = u.form != FormU8 && u.model.Quant.Declared == model.AbsMean && u.allAbsmean()
	if u.masterWeights {
		return config, nil
	}
	var all, quant map[string]json.RawMessage
	if err = json.Unmarshal(config, &all); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", pack.ErrCorrupt, configFile, plainerr.JSON(err))
	}
	const key, keyMLX = "quantization_config", "quantization"
	old, ok := all[key]
	if u.form != FormU8 && !ok && all[keyMLX] == nil {
		return config, nil
	}
	delete(all, keyMLX)
	if u.form != FormU8 {
		delete(all, key)
		return json.MarshalIndent(all, "", "  ")
	}
	if ok {
		if err := json.Unmarshal(old, &quant); err != nil {
			return nil, fmt.Errorf("%w: %s: %s: %v", pack.ErrCorrupt, configFile, key, plainerr.JSON(err))
		}
	}
	if quant == nil {
		quant = map[string]json.RawMessage{}
	}
	quant["quant_method"] = json.RawMessage(`"bitnet"`)
	quant["linear_class"] = json.RawMessage(`"autobitlinear"`)
	quant["quantization_mode"] = json.RawMessage(`"offline"`)
	if quant["modules_to_not_convert"], err = json.Marshal(u.floatModules()); err != nil {
		return nil, err
	}
	b, err := json.Marshal(quant)
	if err != nil {
		return nil, err
	}
	all[key] = b
	return json.MarshalIndent(all, "", "  ")
}

// floatModules returns the modules that config.json already keeps in floats, and the linear layers that are not packed:
// without a weight_scale, transformers would give them a random one.
func (u *unpack) floatModules() []string {
	modules := slices.Clone(u.model.Quant.Float)
	is := map[string]bool{}
	for _, e := range u.in.Manifest().Packed {
		is[e.Name] = true
	}
	for _, n := range u.model.Tensors() {
		if n.Linear && !is[n.Name] && !u.model.Quant.Keeps(n.Name) {
			modules = append(modules, strings.TrimSuffix(n.Name, ".weight"))
		}
	}
	return modules
}

// allAbsmean reports whether all tensors except the head were made by absmean with a per-tensor scale.
func (u *unpack) allAbsmean() bool {
	for _, e := range u.in.Manifest().Packed {
		if e.Name != u.model.Head && e.Name != packed.HeadName && e.Name != packed.ScreenName &&
			(e.Quantizer != "absmean" || e.Scale.Kind != packed.ScaleTensor) {
			return false
		}
	}
	return true
}
