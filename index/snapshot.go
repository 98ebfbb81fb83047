package index

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
)

// snapshot is a consistent state of a table that a reader can search.
type snapshot struct {
	*table
	fences []fence
	page   []byte
}

func (t *table) snapshot() snapshot {
	v := t.view.Load()
	return snapshot{t, v.fences, v.page[:int(v.count.Load())*t.width]}
}

// around implements finder with at most one page read from the file.
func (s snapshot) around(key int64) (near, error) {
	if i := s.floor(s.page, key); i >= 0 {
		p := len(s.fences)
		return near{s.at(s.page, i), s.next(p, i+1), s.next(p, i+2)}, nil
	}
	p := sort.Search(len(s.fences), func(p int) bool { return s.fences[p].key > key }) - 1
	if p < 0 {
		return near{noSlot, s.next(0, 0), s.next(0, 1)}, nil
	}
	page, err := s.readPage(p)
	if err != nil {
		return near{s.fences[p].first(), endSlot, endSlot}, err
	}
	i, last := s.floor(page, key), s.perPage()-1
	switch i {
	case last:
		return near{s.at(page, i), s.next(p+1, 0), s.next(p+1, 1)}, nil
	case last - 1:
		return near{s.at(page, i), s.at(page, last), s.next(p+1, 0)}, nil
	}
	return near{s.at(page, i), s.at(page, i+1), s.at(page, i+2)}, nil
}

// next is entry i of page p where it is known without reading: the first entry
// of a page in the file, or any entry of the page in memory; endSlot otherwise.
func (s snapshot) next(p, i int) slot {
	switch {
	case p < len(s.fences) && i == 0:
		return s.fences[p].first()
	case p < len(s.fences):
		return endSlot
	case i*s.width < len(s.page):
		return s.at(s.page, i)
	}
	return endSlot
}

// readPage reads full page p and believes it only when it is what was written.
func (s snapshot) readPage(p int) ([]byte, error) {
	f, err := s.fs.OpenFile(s.name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page := make([]byte, s.pageBytes())
	pos := int64(p) * int64(len(page))
	if n, err := f.ReadAt(page, pos); n < len(page) {
		if err == io.EOF {
			return nil, damage(s.fs, s.name, pos+int64(n), "file was cut short", nil)
		}
		return nil, err
	}
	if crc32.Checksum(page, castagnoli) != s.fences[p].sum {
		return nil, damage(s.fs, s.name, pos, fmt.Sprintf("checksum mismatch in a page of %d bytes", len(page)), nil)
	}
	return page, nil
}
