//! Max-min fairness: a room that several users divide. Each user has an equal part of what those
//! before it left, so those that need least should come first.

/// A room in bytes or in a count, and the number of users that still come.
#[derive(Debug, Clone, Copy)]
pub struct EqualParts {
    left: usize,
    users: usize,
}

impl EqualParts {
    /// A room for so many users.
    pub fn new(room: usize, users: usize) -> Self {
        Self { left: room, users }
    }

    /// The part of the next user. It is 0 if there are more users than room.
    pub fn part(&self) -> usize {
        self.left / self.users.max(1)
    }

    /// What all users have left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next user spent this, which may exceed its part.
    pub fn spend(&mut self, spent: usize) {
        self.left = self.left.saturating_sub(spent);
        self.users = self.users.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_users_divide_what_is_left() {
        let mut parts = EqualParts::new(12, 3);
        assert_eq!(parts.part(), 4);
        parts.spend(2);
        assert_eq!(parts.part(), 5);
        parts.spend(9);
        assert_eq!((parts.part(), parts.left()), (1, 1));
        parts.spend(7);
        assert_eq!((parts.part(), parts.left()), (0, 0));
    }
}
