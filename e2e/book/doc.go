// Package book runs the commands of docs/operate, so that what the book says works.
package book
