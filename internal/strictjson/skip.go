package strictjson

import "io"

// Skip passes over one value of any kind. Strings and keys are bounded by most bytes, nesting by MaxDepth.
func (s *Scanner) Skip(most int) error { return s.value(most, MaxDepth) }

func (s *Scanner) value(most, depth int) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	s.back()
	switch {
	case (c == '{' || c == '[') && depth == 0:
		return s.Limit("values nested more than %d deep", MaxDepth)
	case c == '{':
		return s.Object(most, func(string) error { return s.value(most, depth-1) })
	case c == '[':
		return s.Array(func(int) error { return s.value(most, depth-1) })
	case c == '"':
		_, err := s.String(most)
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.word()
}

// word reads true, false or null; NaN and Infinity are no JSON.
func (s *Scanner) word() error {
	at := s.off
	var w []byte
	for len(w) <= len("false") {
		c, err := s.Peek()
		if lower := c | 0x20; err != nil || lower < 'a' || lower > 'z' {
			break
		}
		w = append(w, c)
		s.skip()
	}
	switch string(w) {
	case "true", "false", "null":
		return nil
	}
	s.off = at
	return s.Syntax("%q where a value belongs", w)
}

// number reads a number of any JSON spelling: -? digits (. digits)? ([eE] [+-]? digits)?
func (s *Scanner) number() error {
	if _, err := s.optional("-"); err != nil {
		return err
	}
	zero, err := s.optional("0")
	if err != nil {
		return err
	}
	if !zero {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if dot, err := s.optional("."); err != nil {
		return err
	} else if dot {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if exp, err := s.optional("eE"); err != nil || !exp {
		return err
	}
	if _, err := s.optional("+-"); err != nil {
		return err
	}
	return s.digits()
}

// optional consumes the next byte if it is one of set. At the end of the text it is none.
func (s *Scanner) optional(set string) (bool, error) {
	b, err := s.r.Peek(1)
	if len(b) == 0 || !containsByte(set, b[0]) {
		if err == io.EOF {
			err = nil
		}
		return false, err
	}
	s.skip()
	return true, nil
}

// digits consumes one digit or more.
func (s *Scanner) digits() error {
	n := 0
	for ; ; n++ {
		digit, err := s.optional("0123456789")
		if err != nil {
			return err
		}
		if !digit {
			break
		}
	}
	if n == 0 {
		return s.Syntax("a number without digits")
	}
	return nil
}
