//! Terminals for commands that people sit in front of.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::ioctl_fionbio,
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::net::unix::pipe;

/// The outer end of a terminal, where people are.
#[derive(Debug)]
pub(crate) struct Terminal {
    outer: OwnedFd,
}

/// All there is of a new terminal. When everything but `inner` is dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) terminal: Terminal,
    /// What is typed.
    pub(crate) keys: pipe::Sender,
    /// What is shown. When nobody is left inside, reading it is an error.
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
        // It is read and written as pipes are, and waited for in the same way.
        Ok(Opened {
            keys: pipe::Sender::from_owned_fd_unchecked(outer.try_clone()?)?,
            screen: pipe::Receiver::from_owned_fd_unchecked(outer.try_clone()?)?,
            terminal: Self { outer },
            inner,
        })
    }

    /// Tells whoever looks at the terminal inside how large it is.
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
