package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/varvelog/varve"
)

// database has the balances, and how far each partition of the topic is booked.
type database struct{ *sql.DB }

const schema = `
CREATE TABLE IF NOT EXISTS balances (customer TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS places (
	group_id TEXT, topic_id TEXT, partition_no INTEGER, leader_epoch INTEGER NOT NULL, next_offset INTEGER NOT NULL,
	PRIMARY KEY (group_id, topic_id, partition_no)
);`

func openDatabase(ctx context.Context, dir string) (database, error) {
	file := filepath.ToSlash(filepath.Join(dir, "books.db"))
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return database{}, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	_, err = db.ExecContext(ctx, schema)
	return database{db}, err
}

// placeOf reads back where a partition goes on.
func (db database) placeOf(ctx context.Context, k varve.PlaceKey) (p varve.StoredPlace, some bool, err error) {
	err = db.QueryRowContext(ctx,
		`SELECT leader_epoch, next_offset FROM places WHERE group_id = ? AND topic_id = ? AND partition_no = ?`,
		k.Group, k.TopicID.String(), k.Partition).Scan(&p.LeaderEpoch, &p.Offset)
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, err
}

// book changes the balance and the place in one transaction; false, and it changes
// neither, where the payment is booked already.
func (db database) book(ctx context.Context, d *varve.Delivery, dieAt string) (fresh bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if fresh, err = movePlace(ctx, tx, d); err != nil || !fresh {
		return false, err
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO balances VALUES (?1, ?2) ON CONFLICT DO UPDATE SET total = total + ?2`, string(d.Key), amount(&d.Record))
	if err != nil {
		return false, err
	}
	if dieAt == "before" {
		die()
	}
	err = tx.Commit()
	if dieAt == "after" {
		die()
	}
	return err == nil, err
}

// movePlace puts the place behind a record. No row changes where it is there already: the
// condition, that of varve.StoredPlace, is what stops whoever writes late.
func movePlace(ctx context.Context, tx *sql.Tx, d *varve.Delivery) (moved bool, err error) {
	k := d.PlaceKey()
	res, err := tx.ExecContext(ctx, `
		INSERT INTO places VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET leader_epoch = excluded.leader_epoch, next_offset = excluded.next_offset
		WHERE (leader_epoch, next_offset) < (excluded.leader_epoch, excluded.next_offset)`,
		k.Group, k.TopicID.String(), k.Partition, d.LeaderEpoch, d.Offset+1)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// balances is what was booked, of all customers.
func balances(ctx context.Context, dir string) (total int, err error) {
	db, err := openDatabase(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT sum(total) FROM balances`).Scan(&total)
	return total, err
}
