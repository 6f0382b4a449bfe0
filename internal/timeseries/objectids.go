package timeseries

import "encoding/binary"

// ObjectIds: a driver makes them of seconds, five bytes of its own and a
// counter. Per id: whether the five bytes changed, as a difference of their
// number; then seconds and counter as differences.

const idWidth = 12

// idParts are the three parts of an ObjectId as integers.
func idParts(b []byte) (seconds, process, counter int64) {
	seconds = int64(binary.BigEndian.Uint32(b))
	process = int64(binary.BigEndian.Uint32(b[4:]))<<8 | int64(b[8])
	counter = int64(b[9])<<16 | int64(b[10])<<8 | int64(b[11])
	return
}

func appendObjectIDs(dst, data []byte) []byte {
	for part := range 3 {
		d := differ{dst: dst}
		var last, step int64
		for id := data; len(id) > 0; id = id[idWidth:] {
			var p [3]int64
			p[0], p[1], p[2] = idParts(id)
			d.append(p[part] - last - step)
			last, step = p[part], p[part]-last
		}
		dst = d.finish()
	}
	return dst
}

func objectIDs(r *reader, n int, dst []byte) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, n*idWidth)...)
	data := dst[from:]
	for part := range 3 {
		u := undiffer{r: r}
		var last, step int64
		for i := range n {
			step += u.next()
			last += step
			id := data[i*idWidth : (i+1)*idWidth]
			switch part {
			case 0:
				binary.BigEndian.PutUint32(id, uint32(last))
			case 1:
				binary.BigEndian.PutUint32(id[4:], uint32(last>>8))
				id[8] = byte(last)
			case 2:
				id[9], id[10], id[11] = byte(last>>16), byte(last>>8), byte(last)
			}
		}
		u.finish()
	}
	return dst
}
