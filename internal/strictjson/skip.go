package strictjson

import "io"

// maxNumber bounds the spelling of a number that is not an unsigned integer.
const maxNumber = 64

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
		_, err := s.Number()
		return err
	}
	return s.word()
}

// word reads true, false or null; NaN and Infinity are not JSON.
func (s *Scanner) word() error {
	at := s.off
	var w []byte
	for len(w) <= len("false") {
		b, err := s.r.Peek(1)
		if err != nil && err != io.EOF {
			return err
		}
		if len(b) == 0 || b[0]|0x20 < 'a' || b[0]|0x20 > 'z' {
			break
		}
		w = append(w, b[0])
		s.skip()
	}
	switch string(w) {
	case "true", "false", "null":
		return nil
	}
	s.off = at
	return s.Syntax("%q where a value belongs", w)
}

// Number reads a number of any JSON spelling and returns it as it stands.
func (s *Scanner) Number() (string, error) {
	if _, err := s.next(); err != nil {
		return "", err
	}
	s.back()
	s.text = s.text[:0]
	if err := s.number(); err != nil {
		return "", err
	}
	return string(s.text), nil
}

// number reads -? digits (. digits)? ([eE] [+-]? digits)? into s.text.
func (s *Scanner) number() error {
	if _, err := s.accept("-"); err != nil {
		return err
	}
	zero, err := s.accept("0")
	if err != nil {
		return err
	}
	if !zero {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if dot, err := s.accept("."); err != nil {
		return err
	} else if dot {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if exp, err := s.accept("eE"); err != nil || !exp {
		return err
	}
	if _, err := s.accept("+-"); err != nil {
		return err
	}
	return s.digits()
}

// digits reads one digit or more.
func (s *Scanner) digits() error {
	for n := 0; ; n++ {
		digit, err := s.accept("0123456789")
		if err != nil {
			return err
		}
		if !digit && n == 0 {
			return s.Syntax("a number without digits")
		}
		if !digit {
			return nil
		}
	}
}

// accept adds the next byte to s.text if it is one of set. At the end of the text it is none.
func (s *Scanner) accept(set string) (bool, error) {
	b, err := s.r.Peek(1)
	if err == io.EOF {
		return false, nil
	}
	if err != nil || !containsByte(set, b[0]) {
		return false, err
	}
	if len(s.text) == maxNumber {
		return false, s.Limit("a number of more than %d characters", maxNumber)
	}
	s.text = append(s.text, b[0])
	s.skip()
	return true, nil
}
