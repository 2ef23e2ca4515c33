package ledger

import (
	"fmt"
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
	}
	return ofLevel(ofAll)
}

func ofLevel(level int64) source {
	s := source{table: "aggregates", column: "level", one: level, at: "start", unit: 1, measures: ofColumns()}
	if level == byHour {
		s.days = byDay
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

// rows adds the rows of the time of a query, as what follows FROM. If it has no buckets, whole days are read where
// there are some.
func (s source) rows(to *sqldb.Statement, q *seriesQuery, buckets bool) {
	const day = 24 * time.Hour
	first, last := q.from.Add(day-1).Truncate(day), q.to.Truncate(day)
	if s.days == 0 || buckets || !first.Before(last) {
		to.Add(" FROM ", s.table)
		to.Condition(s.between(to, s.one, q.from, q.to))
		return
	}
	to.Add(" FROM (SELECT * FROM ", s.table, " WHERE ", s.between(to, s.one, q.from, first))
	to.Add(" UNION ALL SELECT * FROM ", s.table, " WHERE ", s.between(to, s.days, first, last))
	to.Add(" UNION ALL SELECT * FROM ", s.table, " WHERE ", s.between(to, s.one, last, q.to), ") AS parts")
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
func (s source) each(to *sqldb.Statement, q *seriesQuery) {
	if s.field == 0 {
		return
	}
	var starts []string
	for at := q.from.Unix() / s.one * s.one; at < q.to.Unix(); at += s.one {
		starts = append(starts, strconv.FormatInt(at, 10))
	}
	to.Condition(s.at + " IN (" + strings.Join(starts, ", ") + ")")
}

// between is the condition of rows of one width that begin in a time.
func (s source) between(to *sqldb.Statement, width int64, from, until time.Time) string {
	text := ""
	if s.field != 0 {
		text = "field = " + to.Arg(s.field) + " AND "
	}
	if s.column != "" {
		text += s.column + " = " + to.Arg(width) + " AND "
	}
	return text + s.at + " >= " + to.Arg(from.Unix()*s.unit) + " AND " + s.at + " < " + to.Arg(until.Unix()*s.unit)
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
