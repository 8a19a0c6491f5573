//! Lists that grow without a branch: whether a number is appended can't be foreseen.

/// Some numbers.
pub(crate) struct List<const ROOM: usize> {
    numbers: [usize; ROOM],
    count: usize,
}

impl<const ROOM: usize> List<ROOM> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { numbers: [0; ROOM], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Appends a number if it `belongs` there. There must be room.
    #[inline(always)]
    pub(crate) fn push_if(&mut self, belongs: bool, number: usize) {
        self.numbers[self.count % ROOM] = number;
        self.count += usize::from(belongs);
    }

    /// What was appended since the last call.
    #[inline(always)]
    pub(crate) fn drain(&mut self) -> &[usize] {
        &self.numbers[..core::mem::take(&mut self.count)]
    }
}
