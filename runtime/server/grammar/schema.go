package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// JSON is generated compactly: no white space except an optional space after commas and colons. So the output cannot
// run on in white space, and a value has a bounded number of forms.

// Limits of a schema.
const (
	maxSchema  = 1 << 18 // bytes
	maxRepeats = 4096    // counted characters or items
	maxDigits  = 15      // digits before and after the decimal point: float64 preserves them
)

// Object returns the grammar of JSON objects.
func Object() (*Grammar, error) { return Schema([]byte(`{"type": "object"}`)) }

// Schema returns the grammar of JSON texts that satisfy a schema, not necessarily of all: properties come in the order
// of the schema, and if it lists any, there are no others. An unsupported keyword is an error with its name.
func Schema(text []byte) (*Grammar, error) {
	root, err := jsonread.Parse(text, maxSchema)
	if err != nil {
		return nil, err
	}
	s := &schema{builder: newBuilder(), root: root}
	p, err := s.value(root, "#")
	if err != nil {
		return nil, err
	}
	return s.finish(p)
}

// schema builds the grammar of a schema.
type schema struct {
	*builder
	root *jsonread.Value
}

// annotations are keywords that do not restrict values.
var annotations = []string{"title", "description", "default", "examples", "example", "$schema", "$id", "$comment",
	"deprecated", "readOnly", "writeOnly", "$defs", "definitions", "discriminator"}

// keywords restrict values of one type. They are listed in a fixed order so that errors are reproducible.
var keywords = []struct {
	about string
	list  []string
}{
	{"object", []string{"properties", "required", "additionalProperties"}},
	{"array", []string{"items", "minItems", "maxItems"}},
	{"string", []string{"minLength", "maxLength", "pattern", "format"}},
}

// value matches a value of a schema.
func (s *schema) value(v *jsonread.Value, at string) (part, error) {
	switch {
	case v.Kind == jsonread.Bool && v.Bool:
		return s.anything()
	case v.Kind != jsonread.Object:
		return part{}, fmt.Errorf("%s: want a schema: an object or true", at)
	}
	for _, m := range v.Members {
		if !known(m.Key) {
			return part{}, fmt.Errorf("%s: keyword %.60q is not supported", at, m.Key)
		}
	}
	for _, alone := range []struct {
		key  string
		read func(*jsonread.Value, string) (part, error)
	}{{"$ref", s.reference}, {"const", s.constant}, {"enum", s.enum}, {"anyOf", s.anyOf}, {"allOf", s.allOf}} {
		if x := v.Get(alone.key); x != nil {
			if err := only(v, at, alone.key); err != nil {
				return part{}, err
			}
			return alone.read(x, at+"/"+alone.key)
		}
	}
	return s.typed(v, at)
}

func known(key string) bool {
	for _, k := range keywords {
		if slices.Contains(k.list, key) {
			return true
		}
	}
	return slices.Contains(annotations, key) ||
		slices.Contains([]string{"type", "$ref", "const", "enum", "anyOf", "allOf"}, key)
}

// only rejects other keywords next to one that determines the value. type may accompany const and enum.
func only(v *jsonread.Value, at, key string) error {
	for _, m := range v.Members {
		listed := m.Key == "type" && (key == "const" || key == "enum")
		if m.Key != key && !listed && !slices.Contains(annotations, m.Key) {
			return fmt.Errorf("%s: keyword %.60q together with %q is not supported", at, m.Key, key)
		}
	}
	return nil
}

// escapePointer escapes a name as a step of a JSON pointer, so that different places have different names.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// reference matches the part of the schema at a JSON pointer; it may be recursive.
func (s *schema) reference(v *jsonread.Value, at string) (part, error) {
	name, _ := v.Str()
	pointer, local := strings.CutPrefix(name, "#")
	target := s.root
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if target != nil && target.Kind == jsonread.Object {
			target = target.Get(step)
		} else {
			target = nil
		}
	}
	if !local || target == nil || pointer != "" && pointer[0] != '/' {
		return part{}, fmt.Errorf("%s: %.80q is not a part of this schema", at, name)
	}
	return s.rule("$ref "+name, func() (part, error) { return s.value(target, name) })
}

func (s *schema) constant(v *jsonread.Value, at string) (part, error) {
	text, err := literal(v)
	if err != nil {
		return part{}, fmt.Errorf("%s: %w", at, err)
	}
	return s.text(text), nil
}

// literal returns a scalar as JSON, numbers with their original digits.
func literal(v *jsonread.Value) (string, error) {
	switch v.Kind {
	case jsonread.Null:
		return "null", nil
	case jsonread.Bool:
		return fmt.Sprint(v.Bool), nil
	case jsonread.Number:
		return v.Text, nil
	case jsonread.String:
		return quote(v.Text), nil
	}
	return "", fmt.Errorf("%s as a constant is not supported", v.Kind)
}

// quote returns a JSON string with the fewest escapes.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // strings always encode
	return strings.TrimSuffix(b.String(), "\n")
}

func (s *schema) enum(v *jsonread.Value, at string) (part, error) {
	return s.oneOf(v, at, "values", func(i int) (part, error) { return s.constant(&v.Items[i], at) })
}

func (s *schema) anyOf(v *jsonread.Value, at string) (part, error) {
	return s.oneOf(v, at, "schemas",
		func(i int) (part, error) { return s.value(&v.Items[i], fmt.Sprintf("%s/%d", at, i)) })
}

// oneOf matches one of the items of a list; read builds item i.
func (s *schema) oneOf(v *jsonread.Value, at, items string, read func(i int) (part, error)) (part, error) {
	if v.Kind != jsonread.Array || len(v.Items) == 0 {
		return part{}, fmt.Errorf("%s: want a list of %s", at, items)
	}
	parts := make([]part, len(v.Items))
	for i := range parts {
		var err error
		if parts[i], err = read(i); err != nil {
			return part{}, err
		}
	}
	return s.either(parts...), nil
}

// allOf supports a single schema, which some programs wrap around references.
func (s *schema) allOf(v *jsonread.Value, at string) (part, error) {
	if v.Kind != jsonread.Array || len(v.Items) != 1 {
		return part{}, fmt.Errorf("%s: must have exactly one schema", at)
	}
	return s.value(&v.Items[0], at+"/0")
}

// types are the JSON Schema types.
var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// typed matches a value of one of the schema's types.
func (s *schema) typed(v *jsonread.Value, at string) (part, error) {
	var names []string
	switch t := v.Get("type"); {
	case t == nil:
		return s.untyped(v, at)
	case t.Kind == jsonread.String:
		names = []string{t.Text}
	case t.Kind == jsonread.Array:
		for i := range t.Items {
			names = append(names, t.Items[i].Text)
		}
	}
	if len(names) == 0 {
		return part{}, fmt.Errorf("%s/type: want a string or a list of strings", at)
	}
	for _, k := range keywords {
		for _, key := range k.list {
			if v.Get(key) != nil && !slices.Contains(names, k.about) {
				return part{}, fmt.Errorf("%s: keyword %q applies to type %s, not to %s", at, key, k.about,
					strings.Join(names, ", "))
			}
		}
	}
	var parts []part
	for _, name := range names {
		p, err := s.ofType(name, v, at)
		if err != nil {
			return part{}, err
		}
		parts = append(parts, p)
	}
	return s.either(parts...), nil
}

// untyped matches any value if the schema has no restricting keywords.
func (s *schema) untyped(v *jsonread.Value, at string) (part, error) {
	for _, k := range keywords {
		for _, key := range k.list {
			if v.Get(key) != nil {
				return part{}, fmt.Errorf("%s: keyword %q needs \"type\": %q", at, key, k.about)
			}
		}
	}
	return s.anything()
}

func (s *schema) ofType(name string, v *jsonread.Value, at string) (part, error) {
	switch name {
	case "object":
		return s.object(v, at)
	case "array":
		return s.array(v, at)
	case "string":
		return s.str(v, at)
	case "number":
		return s.rule("number", func() (part, error) { return s.pattern(numberPattern) })
	case "integer":
		return s.rule("integer", func() (part, error) { return s.pattern(integerPattern) })
	case "boolean":
		return s.either(s.text("true"), s.text("false")), nil
	case "null":
		return s.text("null"), nil
	}
	return part{}, fmt.Errorf("%s/type: %.40q: must be one of %s", at, name, strings.Join(types, ", "))
}

var (
	integerPattern = fmt.Sprintf(`-?(0|[1-9][0-9]{0,%d})`, maxDigits-1)
	numberPattern  = integerPattern + fmt.Sprintf(`(\.[0-9]{1,%d})?([eE][+-]?[0-9]{1,2})?`, maxDigits)
)

// pattern matches a regular expression on the JSON text itself.
func (s *schema) pattern(text string) (part, error) {
	re, err := parseRegex(text)
	if err != nil {
		return part{}, err
	}
	return s.regex(re, s.runes)
}

// anything matches any JSON value.
func (s *schema) anything() (part, error) {
	return s.rule("anything", func() (part, error) {
		return s.typed(&jsonread.Value{Kind: jsonread.Object,
			Members: []jsonread.Member{{Key: "type", Value: anyType}}}, "#")
	})
}

var anyType = func() jsonread.Value {
	v := jsonread.Value{Kind: jsonread.Array}
	for _, name := range []string{"object", "array", "string", "number", "boolean", "null"} {
		v.Items = append(v.Items, jsonread.Value{Kind: jsonread.String, Text: name})
	}
	return v
}()

// comma and colon allow a space after them.
func (b *builder) comma() part { return b.then(b.text(","), b.maybe(b.text(" "))) }
func (b *builder) colon() part { return b.then(b.text(":"), b.maybe(b.text(" "))) }

// list matches least to most items between brackets; most < 0 = no upper bound.
func (s *schema) list(open, end string, least, most int, item func() (part, error)) (part, error) {
	if most == 0 {
		return s.then(s.text(open), s.text(end)), nil
	}
	first, err := item()
	if err != nil {
		return part{}, err
	}
	rest, err := s.repeat(max(0, least-1), max(-1, most-1), func() (part, error) {
		x, err := item()
		return s.then(s.comma(), x), err
	})
	if err != nil {
		return part{}, err
	}
	inner := s.then(first, rest)
	if least == 0 {
		inner = s.maybe(inner)
	}
	return s.then(s.text(open), inner, s.text(end)), nil
}

func (s *schema) array(v *jsonread.Value, at string) (part, error) {
	least, most, err := bounds(v, at, "minItems", "maxItems")
	if err != nil {
		return part{}, err
	}
	items := v.Get("items")
	return s.list("[", "]", least, most, func() (part, error) {
		if items == nil {
			return s.anything()
		}
		return s.rule(at+"/items", func() (part, error) { return s.value(items, at+"/items") })
	})
}

// bounds reads a lower and an upper bound; most = −1 if absent.
func bounds(v *jsonread.Value, at, lower, upper string) (least, most int, err error) {
	most = -1
	for _, bound := range []struct {
		key string
		to  *int
	}{{lower, &least}, {upper, &most}} {
		if x := v.Get(bound.key); x != nil {
			n, ok := x.Int()
			if !ok || n < 0 || n > maxRepeats {
				return 0, 0, fmt.Errorf("%s/%s: must be an integer between 0 and %d", at, bound.key, maxRepeats)
			}
			*bound.to = int(n)
		}
	}
	if most >= 0 && least > most {
		return 0, 0, fmt.Errorf("%s: %s is above %s", at, lower, upper)
	}
	return least, most, nil
}

// object matches an object with the schema's properties in their order. Without properties, any names are allowed.
func (s *schema) object(v *jsonread.Value, at string) (part, error) {
	properties, more := v.Get("properties"), v.Get("additionalProperties")
	required, err := requiredOf(v, at)
	if err != nil {
		return part{}, err
	}
	if properties != nil && properties.Kind != jsonread.Object {
		return part{}, fmt.Errorf("%s/properties: want an object", at)
	}
	if properties == nil || len(properties.Members) == 0 {
		if len(required) > 0 {
			return part{}, fmt.Errorf("%s/required: %.60q is not one of the properties", at, required[0])
		}
		return s.freeObject(more, at)
	}
	if more != nil && more.Kind != jsonread.Bool {
		return part{}, fmt.Errorf("%s/additionalProperties: a schema together with properties is not supported", at)
	}
	for _, name := range required {
		if properties.Get(name) == nil {
			return part{}, fmt.Errorf("%s/required: %.60q is not one of the properties", at, name)
		}
	}
	return s.members(properties, required, at)
}

func requiredOf(v *jsonread.Value, at string) (names []string, err error) {
	list := v.Get("required")
	if list == nil {
		return nil, nil
	}
	if list.Kind != jsonread.Array {
		return nil, fmt.Errorf("%s/required: want a list of strings", at)
	}
	for i := range list.Items {
		name, ok := list.Items[i].Str()
		if !ok {
			return nil, fmt.Errorf("%s/required: want a list of strings", at)
		}
		names = append(names, name)
	}
	return names, nil
}

// freeObject matches an object with any names and with values of a schema.
func (s *schema) freeObject(more *jsonread.Value, at string) (part, error) {
	if more != nil && more.Kind == jsonread.Bool && !more.Bool {
		return s.text("{}"), nil
	}
	return s.list("{", "}", 0, -1, func() (part, error) {
		name, err := s.plainString()
		if err != nil {
			return part{}, err
		}
		var value part
		if more == nil || more.Kind == jsonread.Bool {
			value, err = s.anything()
		} else {
			value, err = s.rule(at+"/additionalProperties",
				func() (part, error) { return s.value(more, at+"/additionalProperties") })
		}
		return s.then(name, s.colon(), value), err
	})
}

// members matches the properties of an object. The next property starts at alone if it is the first one, at behind
// otherwise.
func (s *schema) members(properties *jsonread.Value, required []string, at string) (part, error) {
	open, end := s.text("{"), s.text("}")
	alone, behind := open.out, s.node()
	for i := range properties.Members {
		m := &properties.Members[i]
		value, err := s.value(&m.Value, at+"/properties/"+escapePointer.Replace(m.Key))
		if err != nil {
			return part{}, err
		}
		p := s.then(s.text(quote(m.Key)), s.colon(), value)
		comma := s.comma()
		nextAlone, nextBehind := s.node(), s.node()
		s.link(alone, p.in)
		s.link(behind, comma.in)
		s.link(comma.out, p.in)
		s.link(p.out, nextBehind)
		if !slices.Contains(required, m.Key) {
			s.link(alone, nextAlone)
			s.link(behind, nextBehind)
		}
		alone, behind = nextAlone, nextBehind
	}
	s.link(alone, end.in)
	s.link(behind, end.in)
	return part{open.in, end.out}, nil
}

// formats maps the supported values of format to regular expressions.
var formats = map[string]string{
	"date":      `[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])`,
	"time":      clock,
	"date-time": `[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T` + clock,
	"uuid":      `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
}

const clock = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`

// str matches a string.
func (s *schema) str(v *jsonread.Value, at string) (part, error) {
	least, most, err := bounds(v, at, "minLength", "maxLength")
	if err != nil {
		return part{}, err
	}
	pattern, format := v.Get("pattern"), v.Get("format")
	counted := v.Get("minLength") != nil || v.Get("maxLength") != nil
	switch {
	case pattern != nil && (format != nil || counted), format != nil && counted:
		return part{}, fmt.Errorf("%s: pattern, format and length bounds cannot be combined", at)
	case pattern != nil:
		text, _ := pattern.Str()
		p, err := s.search(text)
		if err != nil {
			return part{}, fmt.Errorf("%s/pattern: %w", at, err)
		}
		return p, nil
	case format != nil:
		text, known := formats[format.Text]
		if !known {
			return part{}, fmt.Errorf("%s/format: %.40q is not supported", at, format.Text)
		}
		return s.quoted(text)
	case !counted:
		return s.plainString()
	}
	inner, err := s.repeat(least, most, s.char)
	return s.then(s.text(`"`), inner, s.text(`"`)), err
}

// char matches one character of a string.
func (s *schema) char() (part, error) {
	return s.rule("char", func() (part, error) { return s.inString(0, 0x10ffff), nil })
}

// plainString matches any string.
func (s *schema) plainString() (part, error) {
	return s.rule("string", func() (part, error) {
		c, err := s.char()
		return s.then(s.text(`"`), s.many(c), s.text(`"`)), err
	})
}

// search matches a string that contains a match of a regular expression; ^ and $ anchor it.
func (s *schema) search(text string) (part, error) {
	if !strings.HasPrefix(text, "^") {
		text = `(?s:.*)(?:` + text + `)`
	}
	if !strings.HasSuffix(text, "$") || strings.HasSuffix(text, `\$`) {
		text = `(?:` + text + `)(?s:.*)`
	}
	return s.quoted(text)
}

// quoted matches a string whose whole content matches a regular expression.
func (s *schema) quoted(text string) (part, error) {
	re, err := parseRegex(text)
	if err != nil {
		return part{}, err
	}
	inner, err := s.regex(re, s.inString)
	return s.then(s.text(`"`), inner, s.text(`"`)), err
}

// inString matches one character of a range, escaped as in a JSON string.
func (s *schema) inString(low, high rune) part {
	var parts []part
	plain := func(from, to rune) {
		if from = max(from, low); from <= min(to, high) {
			parts = append(parts, s.runes(from, min(to, high)))
		}
	}
	plain(' ', '!')
	plain('#', '[')
	plain(']', 0x10ffff)
	for r := low; r <= min(high, '\\'); r++ {
		if r < ' ' || r == '"' || r == '\\' {
			parts = append(parts, s.text(escaped(r)))
		}
	}
	return s.either(parts...)
}

// escaped returns a character as it is written inside a JSON string.
func escaped(r rune) string {
	q := quote(string(r))
	return q[1 : len(q)-1]
}
