//! Terminals for interactive commands.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::ioctl_fionbio,
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::net::unix::pipe;

/// The outer end of a terminal, at the user's side.
#[derive(Debug)]
pub(crate) struct Terminal {
    outer: OwnedFd,
}

/// The parts of a new terminal. When everything but `inner` is dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) terminal: Terminal,
    /// The user's input.
    pub(crate) keys: pipe::Sender,
    /// The output. When every inner end is closed, reading it is an error.
    pub(crate) screen: pipe::Receiver,
    /// The streams of the command.
    pub(crate) inner: OwnedFd,
}

impl Terminal {
    /// Opens a terminal.
    pub(crate) fn open() -> io::Result<Opened> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outer = openpt(flags)?;
        unlockpt(&outer)?;
        let inner = ioctl_tiocgptpeer(&outer, flags)?;
        ioctl_fionbio(&outer, true)?;
        // It is read, written and polled like a pipe.
        Ok(Opened {
            keys: pipe::Sender::from_owned_fd_unchecked(outer.try_clone()?)?,
            screen: pipe::Receiver::from_owned_fd_unchecked(outer.try_clone()?)?,
            terminal: Self { outer },
            inner,
        })
    }

    /// Sets the size of the terminal, which its programs can read.
    pub(crate) fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.outer, size)?)
    }
}
