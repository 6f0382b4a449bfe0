package geo

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/bson"
)

// parseLoop reads a closed ring and returns its vertices, each once.
func parseLoop(v bson.Value) ([]s2.Point, error) {
	points, err := parsePositions(v)
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, badValue("Loop has no vertices: %s", v)
	}
	if points[0] != points[len(points)-1] {
		return nil, badValue("Loop is not closed: %s", v)
	}
	points = withoutRepeats(points)
	points = points[:len(points)-1]
	if len(points) < 3 {
		return nil, badValue("Loop must have at least 3 different vertices: %s", v)
	}
	return points, nil
}

// validLoop makes a loop that does not touch itself.
func validLoop(points []s2.Point, v bson.Value) (*s2.Loop, error) {
	if err := checkVertices(points); err != nil {
		return nil, badValue("Loop is not valid: %s %s", v, err)
	}
	loop := s2.LoopFromPoints(points)
	if err := checkLoop(loop); err != nil {
		return nil, badValue("Loop is not valid: %s %s", v, err)
	}
	return loop, nil
}

func checkVertices(points []s2.Point) error {
	at := make(map[s2.Point]int, len(points))
	for i, p := range points {
		if j, dup := at[p]; dup {
			return fmt.Errorf("Duplicate vertices: %d and %d", j, i) // as the server prints it
		}
		at[p] = i
	}
	return nil
}

// maxLoopCheck bounds how long the edges of one ring are held against each
// other. A hundred thousand vertices along a coast take a tenth of it; as many in
// spikes, each beside all others, would take minutes.
const maxLoopCheck = 3 * time.Second

var errCrowded = errors.New("Too many edges lie side by side") // in the manner of the server's reasons

// checkLoop looks for edges that cross.
func checkLoop(loop *s2.Loop) error {
	if err := loop.Validate(); err != nil {
		return err
	}
	index := s2.NewShapeIndex()
	index.Add(loop)
	q := s2.NewCrossingEdgeQuery(index)
	for i, begun := 0, time.Now(); i < loop.NumEdges(); i++ {
		if time.Since(begun) > maxLoopCheck {
			return errCrowded
		}
		e := loop.Edge(i)
		for _, j := range q.Crossings(e.V0, e.V1, loop, s2.CrossingTypeInterior) {
			f := loop.Edge(j)
			return fmt.Errorf("Edges %d and %d cross. Edge locations in degrees: %s-%s and %s-%s", // as the server prints it
				i, j, degrees(e.V0), degrees(e.V1), degrees(f.V0), degrees(f.V1))
		}
	}
	return nil
}

func degrees(p s2.Point) string {
	ll := s2.LatLngFromPoint(p)
	return fmt.Sprintf("[%.7f, %.7f]", ll.Lat.Degrees(), ll.Lng.Degrees())
}

// addPolygonOf adds a polygon of rings: the first is the outside, the others
// are holes.
func (g *Geometry) addPolygonOf(v bson.Value) error {
	if v.Type != bson.TypeArray {
		return badValue("Polygon coordinates must be an array")
	}
	var loops []*s2.Loop
	for it := v.Doc().Iter(); it.Next(); {
		points, err := parseLoop(it.Value)
		if err != nil {
			return err
		}
		loop, err := validLoop(points, it.Value)
		if err != nil {
			return err
		}
		loop.Normalize()
		if len(loops) > 0 && !loops[0].Contains(loop) {
			_, first := v.Doc().First()
			return badValue("Secondary loops not contained by first exterior loop - secondary loops must be holes: %s first loop: %s", it.Value, first)
		}
		loops = append(loops, loop)
	}
	if len(loops) == 0 {
		return badValue("Polygon has no loops.")
	}
	if err := checkLoops(loops); err != nil {
		return badValue("Polygon isn't valid: %s %s", err, v)
	}
	if err := checkNesting(loops, v); err != nil {
		return err
	}
	g.polygons = append(g.polygons, newPolygon(loops))
	return nil
}

// addStrictPolygon adds a polygon of one ring that may be larger than half of
// the sphere.
func (g *Geometry) addStrictPolygon(v bson.Value) error {
	if v.Type != bson.TypeArray {
		return badValue("Coordinates of polygon must be an array")
	}
	if n := v.Doc().Len(); n != 1 {
		return badValue("Only one simple loop is allowed in a big polygon. Instead provided %d loops: %s", n, v)
	}
	_, ring := v.Doc().First()
	points, err := parseLoop(ring)
	if err != nil {
		return err
	}
	loop, err := validLoop(points, ring)
	if err != nil {
		return err
	}
	g.polygons = append(g.polygons, newPolygon([]*s2.Loop{loop}))
	return nil
}

// checkLoops looks for rings that share an edge or cross.
func checkLoops(loops []*s2.Loop) error {
	if len(loops) == 1 {
		return nil
	}
	type place struct{ loop, edge int }
	edges := map[[2]s2.Point]place{}
	index := s2.NewShapeIndex()
	numbers := map[s2.Shape]int{}
	for i, l := range loops {
		index.Add(l)
		numbers[l] = i
		for j := range l.NumEdges() {
			e := l.Edge(j)
			for _, key := range [][2]s2.Point{{e.V0, e.V1}, {e.V1, e.V0}} {
				if at, dup := edges[key]; dup {
					return fmt.Errorf("Duplicate edge: loop %d, edge %d and loop %d, edge %d", at.loop, at.edge, i, j) // as the server prints it
				}
			}
			edges[[2]s2.Point{e.V0, e.V1}] = place{i, j}
		}
	}
	q := s2.NewCrossingEdgeQuery(index)
	for i, l := range loops {
		for j := range l.NumEdges() {
			e := l.Edge(j)
			for shape, crossed := range q.CrossingsEdgeMap(e.V0, e.V1, s2.CrossingTypeInterior) {
				return fmt.Errorf("Edge %d of loop %d crosses edge %d of loop %d", j, i, crossed[0], numbers[shape]) // as the server prints it
			}
		}
	}
	return nil
}

// checkNesting demands that the holes lie side by side in the outer ring, and
// touch it in one vertex at most. The first loop contains the others.
func checkNesting(loops []*s2.Loop, v bson.Value) error {
	outer := make(map[s2.Point]bool, loops[0].NumVertices())
	for _, p := range loops[0].Vertices() {
		outer[p] = true
	}
	for i, l := range loops[1:] {
		shared := 0
		for _, p := range l.Vertices() {
			if outer[p] {
				shared++
			}
		}
		if shared > 1 {
			return badValue("Loop %d shares more than one vertex with its parent loop 0: %s", i+1, v)
		}
	}
	for i, a := range loops[1:] {
		for j, b := range loops[1:] {
			if i != j && a.RectBound().Contains(b.RectBound()) && a.Contains(b) {
				return badValue("Polygon interior loops cannot be nested: %s", v)
			}
		}
	}
	return nil
}
