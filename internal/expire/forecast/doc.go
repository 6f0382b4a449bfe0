// Package forecast computes when documents and measurements come due by a rule: how
// many in each of the next minutes, hours and days (Forecast), from the documents for a dry
// run, and from indexes and buckets for a report; and when the first one is due
// (FirstDue, FirstBucketDue), for the due checks of the monitor. It removes nothing.
//
// Start reading at forecast.go.
package forecast
