package synth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// config is a config.json to be written, and the values from it that the other files need.
type config struct {
	keys       map[string]any
	config     []byte // config.json
	generation []byte // generation_config.json
	dtype      string
	stop       []int // ids that end a text
	special    []int // see specialIDs
}

const maxConfig = 4 << 20

// newConfig applies the options to a configuration. One that needs no change keeps its bytes.
func newConfig(o *Options) (*config, error) {
	if _, err := jsonread.Parse(o.Config, maxConfig); err != nil { // strict, and its errors have positions
		return nil, fmt.Errorf("config.json: %w", err)
	}
	c := &config{config: o.Config}
	d := json.NewDecoder(bytes.NewReader(o.Config))
	d.UseNumber() // keeps 1e-05 as written
	if err := d.Decode(&c.keys); err != nil {
		return nil, fmt.Errorf("config.json: %w: %v", pack.ErrCorrupt, err)
	}
	c.stop = append(c.ids("eos_token_id"), o.Stop...)
	changed := c.declare(o.Weights)
	if o.Mini {
		c.shrink()
		changed = true
	}
	if changed {
		c.config = encode(c.keys)
	}
	c.dtype = c.string("torch_dtype")
	if c.dtype == "" {
		c.dtype = c.string("dtype")
	}
	c.special = c.specialIDs()
	c.generation = c.generationConfig()
	return c, nil
}

// declare changes quantization_config to match the weights, and reports whether it did.
func (c *config) declare(w Weights) bool {
	q, _ := c.keys["quantization_config"].(map[string]any)
	if w != Codes || q != nil && q["quantization_mode"] != "online" {
		return false
	}
	if q == nil { // as the transformers library writes it for packed codes of any model
		q = map[string]any{"quant_method": "bitnet", "modules_to_not_convert": nil}
		c.keys["quantization_config"] = q
	} else {
		q["quantization_mode"] = "offline"
	}
	return true
}

func (c *config) generationConfig() []byte {
	keys := map[string]any{"do_sample": false}
	if bos := c.ids("bos_token_id"); len(bos) > 0 {
		keys["bos_token_id"] = bos[0]
	}
	if len(c.stop) > 0 {
		keys["eos_token_id"] = c.stop
	}
	return encode(keys)
}

// quantMethod is the declared quantization method, "" for none.
func (c *config) quantMethod() string {
	q, _ := c.keys["quantization_config"].(map[string]any)
	method, _ := q["quant_method"].(string)
	return method
}

func (c *config) string(key string) string {
	s, _ := c.keys[key].(string)
	return s
}

// otherNames are those of keys, in the first families.
var otherNames = map[string][]string{
	"hidden_size": {"n_embd", "n_embed"}, "num_attention_heads": {"n_head"}, "num_hidden_layers": {"n_layer"},
	"max_position_embeddings": {"n_positions", "seq_length"}, "intermediate_size": {"ffn_dim"},
}

// name returns the name that a key has in the file.
func (c *config) name(key string) string {
	for _, name := range otherNames[key] {
		if c.keys[key] == nil && c.keys[name] != nil {
			return name
		}
	}
	return key
}

// number reads an integer; formats/model checks its range.
func (c *config) number(key string) (int, bool) {
	n, ok := c.keys[c.name(key)].(json.Number)
	if !ok {
		return 0, false
	}
	v, err := n.Int64()
	return int(v), err == nil
}

// ids reads one token id or a list of them.
func (c *config) ids(key string) []int {
	values, ok := c.keys[key].([]any)
	if !ok {
		values = []any{c.keys[key]}
	}
	var ids []int
	for _, v := range values {
		if n, ok := v.(json.Number); ok {
			if id, err := n.Int64(); err == nil {
				ids = append(ids, int(id))
			}
		}
	}
	return ids
}

// specialIDs returns the bos, end-of-text and pad tokens in the vocabulary, ascending, without duplicates. A pad token
// of −1 or beyond the vocabulary means none in some files.
func (c *config) specialIDs() []int {
	vocab, _ := c.number("vocab_size")
	ids := slices.Concat(c.ids("bos_token_id"), c.stop, c.ids("pad_token_id"))
	ids = slices.DeleteFunc(ids, func(id int) bool { return id < 0 || id >= vocab })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// set stores numbers in the form in which they were read (a scalar or a list).
func (c *config) set(key string, values ...int) {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = json.Number(strconv.Itoa(v))
	}
	c.keys[c.name(key)] = list
	if len(values) == 1 {
		c.keys[c.name(key)] = list[0]
	}
}

// encode marshals v in the form in which such files are published: indented, keys sorted.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // maps, strings and numbers always encode
	}
	return b.Bytes()
}
