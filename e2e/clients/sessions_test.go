package clients

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"testing"

	"github.com/gin-contrib/sessions"
	"github.com/gin-contrib/sessions/mongo/mongodriver"
	"github.com/gin-gonic/gin"
	"go.mongodb.org/mongo-driver/bson"
)

// sessionSeconds is how long a session lives: more than a busy machine stalls.
const sessionSeconds = 5

// TestGinSessions logs in, is known, is forgotten when the session's document has
// left, and logs out.
func TestGinSessions(t *testing.T) {
	c := database(t, "e2e_gin").Collection("sessions")
	gin.SetMode(gin.TestMode)
	app := gin.New()
	store := mongodriver.NewStore(c, sessionSeconds, true, []byte("a key that signs cookies"))
	app.Use(sessions.Sessions("session", store))
	app.GET("/login", func(g *gin.Context) {
		s := sessions.Default(g)
		s.Set("user", g.Query("user"))
		if err := s.Save(); err != nil {
			g.String(http.StatusInternalServerError, err.Error())
		}
	})
	app.GET("/", func(g *gin.Context) {
		user, _ := sessions.Default(g).Get("user").(string)
		g.String(http.StatusOK, user)
	})
	app.GET("/logout", func(g *gin.Context) {
		s := sessions.Default(g)
		s.Options(sessions.Options{Path: "/", MaxAge: -1})
		if err := s.Save(); err != nil {
			g.String(http.StatusInternalServerError, err.Error())
		}
	})
	s := httptest.NewServer(app)
	defer s.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(path, want string) {
		t.Helper()
		r, err := browser.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body := make([]byte, 1000)
		n, _ := r.Body.Read(body)
		if r.StatusCode != http.StatusOK || string(body[:n]) != want {
			t.Fatalf("%s: %d %q, not %q", path, r.StatusCode, body[:n], want)
		}
	}

	get("/login?user=ann", "")
	get("/", "ann")
	expires(t, c, "modified", sessionSeconds)
	left(t, c, 0)
	get("/", "")

	get("/login?user=bob", "")
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	get("/logout", "")
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Fatal(n, err)
	}
}
