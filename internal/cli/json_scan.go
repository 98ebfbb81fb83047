package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonScanner reads the JSON values of one line, front to back, and gives out its
// strings as slices of the line where they have no escapes. It reads what
// encoding/json does, but for text that this would change silently: half a
// surrogate pair is an error. The line must be valid UTF-8.
type jsonScanner struct {
	line []byte
	pos  int
}

var errJSONEnd = errors.New("not JSON: it does not end on its line")

// next skips space and returns the byte that the next token begins with, 0 at the
// end of the line.
func (s *jsonScanner) next() byte {
	for s.pos < len(s.line) {
		switch c := s.line[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take takes the token c if it is next.
func (s *jsonScanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.pos++
	return true
}

func (s *jsonScanner) expect(c byte) error {
	if s.take(c) {
		return nil
	}
	return s.unexpected(string(c))
}

func (s *jsonScanner) unexpected(want string) error {
	if s.next() == 0 && s.pos == len(s.line) {
		return errJSONEnd
	}
	r, _ := utf8.DecodeRune(s.line[s.pos:])
	return fmt.Errorf("not JSON: %q at byte %d, where %s should be", r, s.pos+1, want)
}

// each calls f in front of every element up to the closing bracket; the opening
// one has been taken.
func (s *jsonScanner) each(closing byte, f func() error) error {
	if s.take(closing) {
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		if s.take(closing) {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// name reads the name of a field and its colon.
func (s *jsonScanner) name() (string, error) {
	if s.next() != '"' {
		return "", s.unexpected("a name")
	}
	b, err := s.text()
	if err != nil {
		return "", err
	}
	return string(b), s.expect(':')
}

// null takes a null if it is next.
func (s *jsonScanner) null() bool {
	if s.next() == 'n' && bytes.HasPrefix(s.line[s.pos:], []byte("null")) {
		s.pos += len("null")
		return true
	}
	return false
}

// integer reads a whole number; false for anything else.
func (s *jsonScanner) integer() (int64, bool) {
	s.next()
	end := s.pos
	for end < len(s.line) && bytes.IndexByte([]byte("+-.eE0123456789"), s.line[end]) >= 0 {
		end++
	}
	token := s.line[s.pos:end]
	digits := bytes.TrimPrefix(token, []byte("-"))
	if len(digits) == 0 || digits[0] == '+' || (digits[0] == '0' && len(digits) > 1) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	s.pos = end
	return n, err == nil
}

// text reads a string, whose quote is next.
func (s *jsonScanner) text() ([]byte, error) {
	s.pos++
	start := s.pos
	for i := start; i < len(s.line); i++ {
		switch c := s.line[i]; {
		case c == '"':
			s.pos = i + 1
			return s.line[start:i:i], nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			return nil, fmt.Errorf("not JSON: control character at byte %d of the line", i+1)
		}
	}
	return nil, errJSONEnd
}

// escaped reads the rest of a string that begins at start and has its first
// backslash at i.
func (s *jsonScanner) escaped(start, i int) ([]byte, error) {
	out := append(make([]byte, 0, len(s.line)-start), s.line[start:i]...)
	for s.pos = i; s.pos < len(s.line); {
		switch c := s.line[s.pos]; {
		case c == '"':
			s.pos++
			return out, nil
		case c == '\\':
			var err error
			if out, err = s.escape(out); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, fmt.Errorf("not JSON: control character at byte %d of the line", s.pos+1)
		default:
			out = append(out, c)
			s.pos++
		}
	}
	return nil, errJSONEnd
}

// escape appends what the escape at pos stands for.
func (s *jsonScanner) escape(out []byte) ([]byte, error) {
	if s.pos+1 == len(s.line) {
		return nil, errJSONEnd
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	c := s.line[s.pos+1]
	if i := bytes.IndexByte([]byte(from), c); i >= 0 {
		s.pos += 2
		return append(out, to[i]), nil
	}
	r, ok := s.unicode()
	if !ok {
		return nil, fmt.Errorf("not JSON: no escape at byte %d of the line", s.pos+1)
	}
	if utf16.IsSurrogate(r) {
		low, ok := s.unicode()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return nil, errors.New(`a \u escape of half a surrogate pair is no text`)
		}
	}
	return utf8.AppendRune(out, r), nil
}

// unicode takes a \uXXXX if it is next.
func (s *jsonScanner) unicode() (rune, bool) {
	b := s.line[s.pos:]
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.pos += 6
	return rune(n), true
}

// describe names the kind of value that is next.
func (s *jsonScanner) describe() string {
	switch c := s.next(); {
	case c == 0:
		return "nothing"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	case c == '-' || ('0' <= c && c <= '9'):
		return "a number"
	}
	return "something that is not JSON"
}
