package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Readings of sensors, one a minute from each, made of real ones: the hourly
// weather of Seattle (seattle-weather-hourly-normals.csv of the npm package
// vega-datasets). A sensor has its own place in the year, an offset, and noise
// in the last digit; minutes are interpolated between the hours.

// sensors is how many there are.
const sensors = 1000

// readings makes any reading.
type readings struct {
	hours [][3]float64
	from  time.Time // of the first readings
}

// loadReadings reads the real ones.
func loadReadings(file string) (*readings, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: `make bench` gets it, with the npm package vega-datasets", err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	r := &readings{}
	for _, l := range lines[1:] { // date, pressure, temperature, wind
		var h [3]float64
		for i := range h {
			if h[i], err = strconv.ParseFloat(l[i+1], 64); err != nil {
				return nil, err
			}
		}
		r.hours = append(r.hours, h)
	}
	if len(r.hours) < 2 {
		return nil, errors.New(file + " has no readings")
	}
	return r, nil
}

// reading is one of them.
type reading struct {
	at                          time.Time
	sensor                      int32
	pressure, temperature, wind float64
}

// number returns reading n: those of a minute come one sensor after the other.
func (r *readings) number(n int64) reading {
	sensor, minute := n%sensors, n/sensors
	hour := int(minute/60+sensor*37) % (len(r.hours) - 1)
	part := float64(minute%60) / 60
	chance := mix(uint64(n))
	value := func(i int) float64 {
		noise := float64(chance>>(16*i)%3) - 1
		v := r.hours[hour][i]*(1-part) + r.hours[hour+1][i]*part + float64(sensor%7) + noise/10
		return math.Round(v*10) / 10
	}
	return reading{r.from.Add(time.Duration(minute) * time.Minute), int32(sensor), value(0), value(1), value(2)}
}

// mix is a number that looks random (the last steps of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// bson is the reading as the server gets it.
func (r *reading) bson() bson.Doc {
	b := new(bson.Builder).Date("ts", r.at.UnixMilli()).Int32("sensor", r.sensor)
	return b.Double("pressure", r.pressure).Double("temperature", r.temperature).Double("wind", r.wind).Finish()
}
