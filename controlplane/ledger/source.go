package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// A source is a table that a series is read from.
type source struct {
	table string
	field int64 // of sums; 0: it is another table
	// A table may have rows of several widths: which is read, by a column's value, and which has whole days; 0: none.
	column    string
	one, days int64
	// at is the column of the time, and unit how many of it are a second.
	at       string
	unit     int64
	measures []measured
}

// A measured is a measure, and what of a table is summed for it.
type measured struct {
	measure int
	of      string
}

// source returns the smallest table that knows a group and what is asked of it. Sums of keys and
// users by hour, and sums by minute, are kept for a few days.
func (q *seriesQuery) source(by string) source {
	is := map[string]bool{seriesFields[by]: by != ""}
	for column := range q.equal {
		is[column] = true
	}
	only := func(column string) bool {
		for other, yes := range is {
			if yes && other != column {
				return false
			}
		}
		return is[column]
	}
	kept := func(keep time.Duration) bool { return q.now.Sub(q.from) < keep }
	hourly, daily := q.width >= time.Hour, q.width >= 24*time.Hour
	summed := daily || hourly && kept(keepNamedHours-time.Hour)
	tenant := is["organization"] || is["project"]
	switch {
	case only("user_id") && summed:
		return ofSums(sumsOfUsers, daily)
	case only("api_key") && summed:
		return ofSums(sumsOfKeys, daily)
	case q.equal["user_id"] != nil && daily && !is["api_key"] && !tenant:
		return source{table: "tallies"}
	case is["user_id"], !hourly && (tenant || is["api_key"] || !kept(keepMinutes-time.Hour)):
		return ofExchanges()
	case !hourly:
		return source{table: "minutes", at: "start", unit: 1, measures: ofColumns()}
	case is["api_key"]:
		return ofLevel(byHourAndKey)
	case tenant && daily:
		return ofLevel(byDay)
	case tenant:
		return ofLevel(byHour)
	case daily:
		return ofLevel(ofAllByDay)
	}
	return ofLevel(ofAll)
}

func ofLevel(level int64) source {
	s := source{table: "aggregates", column: "level", one: level, at: "start", unit: 1, measures: ofColumns()}
	switch level {
	case byHour:
		s.days = byDay
	case ofAll:
		s.days = ofAllByDay
	}
	return s
}

func ofColumns() []measured {
	var all []measured
	for i, c := range columns() {
		all = append(all, measured{i, c})
	}
	return all
}

func ofSums(field int64, daily bool) source {
	s := source{table: "sums", field: field, column: "width", one: hours, days: days, at: "start", unit: 1}
	if daily {
		s.one, s.days = days, 0
	}
	for i, c := range strings.Split(namedColumns, ", ") {
		s.measures = append(s.measures, measured{namedMeasures[i], c})
	}
	return s
}

// ofExchanges is read by readExchanges.
func ofExchanges() source { return source{table: "exchanges"} }

// group returns the expression for the name of a group. A project is named with its organization.
func (s source) group(by string) string {
	switch {
	case by == "":
		return "''"
	case s.field != 0:
		return "name"
	case by == "project":
		return "CASE WHEN project = '' THEN '' ELSE organization || '/' || project END"
	}
	return seriesFields[by]
}

// bucket is where the bucket begins that a row is in.
func (s source) bucket(width time.Duration) string {
	seconds := int64(width / time.Second)
	return fmt.Sprintf("%s / %d * %d", s.at, seconds*s.unit, seconds)
}

// few reports whether the source has few groups, or is read as a whole: they and their buckets are read at once.
func (s source) few(by string) bool {
	return (by == "model" || by == "provider") && s.table != "sums" && (s.table != "aggregates" || s.one >= ofAll)
}

// A stretch is a time of which the rows of one width are added, or taken away again.
type stretch struct {
	width       int64
	from, until time.Time
	minus       bool
}

// stretches are what together is the time of a query. If it has no buckets, whole days are read where there are some:
// of a day of which most is wanted, the hours that are not are taken away. That needs all hours of the day.
func (s source) stretches(q *seriesQuery, buckets bool) []stretch {
	const day = 24 * time.Hour
	begin, first, last := q.from.Truncate(day), q.from.Add(day-1).Truncate(day), q.to.Truncate(day)
	if s.days == 0 || buckets || first.After(last) {
		return []stretch{{s.one, q.from, q.to, false}}
	}
	all := []stretch{{s.one, q.from, first, false}, {s.days, first, last, false}, {s.one, last, q.to, false}}
	if q.from.Sub(begin) < first.Sub(q.from) && q.now.Sub(begin) < keepNamedHours-time.Hour {
		all[0], all[1].from = stretch{s.one, begin, q.from, true}, begin
	}
	if end := last.Add(day); last.Before(q.to) && (end.Sub(q.to) < q.to.Sub(last) || q.to.After(q.now)) {
		all[2], all[1].until = stretch{s.one, q.to, end, true}, end
	}
	return slices.DeleteFunc(all, func(x stretch) bool { return !x.from.Before(x.until) })
}

// rows adds the rows of the time of a query, as what follows FROM.
func (s source) rows(to *sqldb.Statement, q *seriesQuery, buckets bool) {
	all := s.stretches(q, buckets)
	if len(all) == 1 {
		to.Add(" FROM ", s.table)
		to.Condition(s.between(to, &all[0]))
		return
	}
	for i := range all {
		to.Add(map[bool]string{true: " FROM (SELECT ", false: " UNION ALL SELECT "}[i == 0], s.names(), s.at)
		for _, m := range s.measures {
			to.Add(map[bool]string{false: ", ", true: ", -"}[all[i].minus], m.of, " AS ", m.of)
		}
		to.Add(" FROM ", s.table, " WHERE ", s.between(to, &all[i]))
	}
	to.Add(") AS parts")
}

// names are the columns by which the rows of the source are grouped and chosen, with commas behind them.
func (s source) names() string {
	if s.field != 0 {
		return "name, "
	}
	return "organization, project, api_key, model, provider, "
}

// bound adds the conditions of a query.
func (s source) bound(to *sqldb.Statement, q *seriesQuery) {
	for column, list := range q.equal {
		switch {
		case s.field != 0:
			column = "name"
		case column == "api_key", column == "user_id": // as their indexes have it
			to.Condition(column + " <> ''")
		}
		if column == "project" {
			to.Condition(projects(to, list))
			continue
		}
		to.Among(column, list)
	}
}

// each names the begin of every row, if the sums of some names are read. Their key has the name after the begin:
// between two times, the rows of all names would be read.
func (s source) each(to *sqldb.Statement, q *seriesQuery, buckets bool) {
	if s.field == 0 {
		return
	}
	all := s.stretches(q, buckets)
	var starts []string
	for at := all[0].from.Unix() / s.one * s.one; at < all[len(all)-1].until.Unix(); at += s.one {
		starts = append(starts, strconv.FormatInt(at, 10))
	}
	to.Condition(s.at + " IN (" + strings.Join(starts, ", ") + ")")
}

// between is the condition of the rows of a stretch.
func (s source) between(to *sqldb.Statement, x *stretch) string {
	text := ""
	if s.field != 0 {
		text = "field = " + to.Arg(s.field) + " AND "
	}
	if s.column != "" {
		text += s.column + " = " + to.Arg(x.width) + " AND "
	}
	return text + s.at + " >= " + to.Arg(x.from.Unix()*s.unit) + " AND " + s.at + " < " + to.Arg(x.until.Unix()*s.unit)
}

// projects is the condition that one of several projects takes. Each is a name, with its organization or without.
func projects(s *sqldb.Statement, list []string) string {
	any := make([]string, len(list))
	for i, name := range list {
		organization, project, whole := strings.Cut(name, "/")
		if !whole {
			any[i] = "project = " + s.Arg(name)
			continue
		}
		any[i] = "(organization = " + s.Arg(organization) + " AND project = " + s.Arg(project) + ")"
	}
	return "(" + strings.Join(any, " OR ") + ")"
}
