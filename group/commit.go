package group

// CheckCommit says whether a commit, or any request that changes nothing of the
// group, is a current member's: nil, *UnknownMemberError, *InstanceError or
// *FencedError. One without a member and with a negative epoch, from a program
// that keeps its place in a group without being in it, is good while the group
// is empty. It does not ask whose the partitions are: see Owner.
//
// It takes no time: until an event puts a late member out, nobody else has its
// partitions.
func (g *Group) CheckCommit(id, instance string, epoch int32) error {
	if epoch < 0 && id == "" && instance == "" && len(g.members) == 0 {
		return nil
	}
	m, err := g.known(id, instance)
	if err != nil {
		return err
	}
	if m.away() || epoch != m.epoch {
		return &FencedError{g.id, id, epoch, m.epoch}
	}
	return nil
}
