package jsonread

// Array reads an array and calls each for every element; each must read it.
func (r *Reader) Array(each func(index int) error) error {
	if err := r.open(Array); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := r.more(']', i)
		if err != nil || !more {
			return err
		}
		if err := each(i); err != nil {
			return err
		}
	}
}

// Object reads an object and calls each for every key; each must read the value. Duplicate keys, and more than
// MaxValues keys, are errors.
func (r *Reader) Object(each func(key string) error) error {
	seen := map[string]bool{}
	return r.Members(func(raw []byte) error {
		key := string(raw)
		if seen[key] {
			return r.Errorf("the key %.80q occurs twice", key)
		}
		if len(seen) == MaxValues {
			return r.Limitf("more than %d keys", MaxValues)
		}
		seen[key] = true
		return each(key)
	})
}

// Members is Object without the check for duplicate keys, for large tables whose owner checks them. The key is valid
// until the value is read.
func (r *Reader) Members(each func(key []byte) error) error {
	if err := r.open(Object); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := r.more('}', i)
		if err != nil || !more {
			return err
		}
		key, err := r.Bytes()
		if err != nil {
			return err
		}
		if r.blanks(); !r.at(':') {
			return r.Errorf("a colon is expected after a key")
		}
		if err := each(key); err != nil {
			return err
		}
	}
}

func (r *Reader) open(k Kind) error {
	if err := r.expect(k); err != nil {
		return err
	}
	if r.depth++; r.depth > MaxDepth {
		return r.Limitf("arrays and objects are nested deeper than %d", MaxDepth)
	}
	r.pos++
	return nil
}

// more reads the comma or closing bracket after i elements; true = another element follows.
func (r *Reader) more(closing byte, i int) (bool, error) {
	r.blanks()
	if r.at(closing) {
		r.depth--
		return false, nil
	}
	if i > 0 && !r.at(',') {
		return false, r.Errorf("a comma or %q is expected", closing)
	}
	return true, nil
}

// Skip reads any value, with all checks.
func (r *Reader) Skip() error {
	k, err := r.Kind()
	if err != nil {
		return err
	}
	switch k {
	case Null:
		_, err = r.Null()
	case Bool:
		_, err = r.Bool()
	case Number:
		_, err = r.number()
	case String:
		_, err = r.Bytes()
	case Array:
		err = r.Array(func(i int) error {
			if err := r.Skip(); err != nil {
				return within(err, indexStep(i))
			}
			return nil
		})
	case Object:
		err = r.Object(func(key string) error {
			if err := r.Skip(); err != nil {
				return within(err, keyStep(key))
			}
			return nil
		})
	}
	return err
}
