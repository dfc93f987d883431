! PapyrusKV's Fortran interface: module PAPYRUS, over papyrus/kv.h, where each call is described.
!
! Layer      bindings; Fortran 2008
! Source     PapyrusKV's released interface; docs/papyruskv.md
! Threads    as papyrus/kv.h
!
! IERROR is PAPYRUSKV_OK or a negative number. Names and paths end in CHAR(0). Keys and values are
! characters of any kind of content; their lengths are INTEGER(KIND=8). What has callbacks in C
! (a hash function, update functions) is registered by a C function of the program.
!
! The library contains the object code of this file, which needs no Fortran runtime; for another
! compiler than the one that it was built with, compile this file along with the program.
module papyrus
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer, parameter, public :: PAPYRUSKV_OK = 0
  integer, parameter, public :: PAPYRUSKV_SUCCESS = 0
  integer, parameter, public :: PAPYRUSKV_ERR = -1
  integer, parameter, public :: PAPYRUSKV_INVALID_DB = -2
  integer, parameter, public :: PAPYRUSKV_NOT_FOUND = PAPYRUSKV_ERR
  integer, parameter, public :: PAPYRUSKV_INVALID_ARGUMENT = -3
  integer, parameter, public :: PAPYRUSKV_READ_ONLY = -4
  integer, parameter, public :: PAPYRUSKV_NO_SPACE = -5
  integer, parameter, public :: PAPYRUSKV_IO = -6
  integer, parameter, public :: PAPYRUSKV_CORRUPTION = -7
  integer, parameter, public :: PAPYRUSKV_BUSY = -8
  integer, parameter, public :: PAPYRUSKV_TIMED_OUT = -9
  integer, parameter, public :: PAPYRUSKV_PEER_FAILED = -10
  integer, parameter, public :: PAPYRUSKV_OUT_OF_MEMORY = -11
  integer, parameter, public :: PAPYRUSKV_UNSUPPORTED = -12
  integer, parameter, public :: PAPYRUSKV_MEMTABLE = 1
  integer, parameter, public :: PAPYRUSKV_SSTABLE = 2
  integer, parameter, public :: PAPYRUSKV_SEQUENTIAL = 1
  integer, parameter, public :: PAPYRUSKV_RELAXED = 2
  integer, parameter, public :: PAPYRUSKV_CREATE = 4
  integer, parameter, public :: PAPYRUSKV_RDWR = 8
  integer, parameter, public :: PAPYRUSKV_WRONLY = 16
  integer, parameter, public :: PAPYRUSKV_RDONLY = 32
  integer, parameter, public :: PAPYRUSKV_UDONLY = 64

  ! Where a get has found a pair.
  type, bind(c), public :: papyruskv_pos_t
    type(c_ptr) :: handle
  end type papyruskv_pos_t

  ! Where a walk over the pairs of this rank stands. KEY and VAL are readable until it moves on, and
  ! disassociated behind the last pair.
  type, public :: papyruskv_iter_t
    character(kind=c_char), pointer :: key(:) => null()
    integer(kind=8) :: keylen = 0
    character(kind=c_char), pointer :: val(:) => null()
    integer(kind=8) :: vallen = 0
    type(c_ptr), private :: iter = c_null_ptr
  end type papyruskv_iter_t

  ! What a papyruskv_iter_t of C points to.
  type, bind(c) :: c_iter_t
    type(c_ptr) :: key
    integer(c_size_t) :: keylen
    type(c_ptr) :: val
    integer(c_size_t) :: vallen
    type(c_ptr) :: handle
  end type c_iter_t

  public :: papyruskv_init, papyruskv_finalize, papyruskv_open, papyruskv_close
  public :: papyruskv_put, papyruskv_get, papyruskv_get_pos, papyruskv_delete, papyruskv_free
  public :: papyruskv_fence, papyruskv_barrier, papyruskv_signal_notify, papyruskv_signal_wait
  public :: papyruskv_consistency, papyruskv_protect
  public :: papyruskv_destroy, papyruskv_checkpoint, papyruskv_restart, papyruskv_wait
  public :: papyruskv_iter_local, papyruskv_iter_next, papyruskv_update

  interface
    integer(c_int) function c_init(argc, argv, repository) bind(c, name="papyruskv_init")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: argc, argv
      character(kind=c_char), intent(in) :: repository(*)
    end function c_init
    integer(c_int) function c_finalize() bind(c, name="papyruskv_finalize")
      import :: c_int
    end function c_finalize
    integer(c_int) function c_open(name, flags, opt, db) bind(c, name="papyruskv_open")
      import :: c_int, c_ptr, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
      type(c_ptr), value :: opt
      integer(c_int), intent(out) :: db
    end function c_open
    integer(c_int) function c_close(db) bind(c, name="papyruskv_close")
      import :: c_int
      integer(c_int), value :: db
    end function c_close
    integer(c_int) function c_put(db, key, keylen, val, vallen) bind(c, name="papyruskv_put")
      import :: c_int, c_char, c_size_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*), val(*)
      integer(c_size_t), value :: keylen, vallen
    end function c_put
    integer(c_int) function c_get_pos(db, key, keylen, val, vallen, pos) &
        bind(c, name="papyruskv_get_pos")
      import :: c_int, c_char, c_size_t, c_ptr, papyruskv_pos_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen
      type(c_ptr), intent(inout) :: val
      integer(c_size_t), intent(out) :: vallen
      type(papyruskv_pos_t), intent(out) :: pos
    end function c_get_pos
    integer(c_int) function c_delete(db, key, keylen) bind(c, name="papyruskv_delete")
      import :: c_int, c_char, c_size_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen
    end function c_delete
    integer(c_int) function c_free(val) bind(c, name="papyruskv_free")
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: val
    end function c_free
    integer(c_int) function c_fence(db, level) bind(c, name="papyruskv_fence")
      import :: c_int
      integer(c_int), value :: db, level
    end function c_fence
    integer(c_int) function c_barrier(db, level) bind(c, name="papyruskv_barrier")
      import :: c_int
      integer(c_int), value :: db, level
    end function c_barrier
    integer(c_int) function c_signal_notify(signum, ranks, count) &
        bind(c, name="papyruskv_signal_notify")
      import :: c_int
      integer(c_int), value :: signum, count
      integer(c_int), intent(in) :: ranks(*)
    end function c_signal_notify
    integer(c_int) function c_signal_wait(signum, ranks, count) &
        bind(c, name="papyruskv_signal_wait")
      import :: c_int
      integer(c_int), value :: signum, count
      integer(c_int), intent(in) :: ranks(*)
    end function c_signal_wait
    integer(c_int) function c_consistency(db, consistency) bind(c, name="papyruskv_consistency")
      import :: c_int
      integer(c_int), value :: db, consistency
    end function c_consistency
    integer(c_int) function c_protect(db, prot) bind(c, name="papyruskv_protect")
      import :: c_int
      integer(c_int), value :: db, prot
    end function c_protect
    integer(c_int) function c_destroy(db, event) bind(c, name="papyruskv_destroy")
      import :: c_int
      integer(c_int), value :: db
      integer(c_int), intent(out) :: event
    end function c_destroy
    integer(c_int) function c_checkpoint(db, path, event) bind(c, name="papyruskv_checkpoint")
      import :: c_int, c_char
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), intent(out) :: event
    end function c_checkpoint
    integer(c_int) function c_restart(path, name, flags, opt, db, event) &
        bind(c, name="papyruskv_restart")
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: path(*), name(*)
      integer(c_int), value :: flags
      type(c_ptr), value :: opt
      integer(c_int), intent(out) :: db, event
    end function c_restart
    integer(c_int) function c_wait(db, event) bind(c, name="papyruskv_wait")
      import :: c_int
      integer(c_int), value :: db, event
    end function c_wait
    integer(c_int) function c_iter_local(db, iter) bind(c, name="papyruskv_iter_local")
      import :: c_int, c_ptr
      integer(c_int), value :: db
      type(c_ptr), intent(inout) :: iter
    end function c_iter_local
    integer(c_int) function c_iter_next(db, iter) bind(c, name="papyruskv_iter_next")
      import :: c_int, c_ptr
      integer(c_int), value :: db
      type(c_ptr), intent(inout) :: iter
    end function c_iter_next
    integer(c_int) function c_update(db, key, keylen, pos, fnid, userin, userinlen, userout, &
        useroutlen) bind(c, name="papyruskv_update")
      import :: c_int, c_char, c_size_t, papyruskv_pos_t
      integer(c_int), value :: db, fnid
      character(kind=c_char), intent(in) :: key(*), userin(*)
      integer(c_size_t), value :: keylen, userinlen, useroutlen
      type(papyruskv_pos_t), intent(in) :: pos
      character(kind=c_char), intent(inout) :: userout(*)
    end function c_update
  end interface

contains

  subroutine papyruskv_init(repository, ierror)
    character(kind=c_char), intent(in) :: repository(*)
    integer, intent(out) :: ierror
    ierror = c_init(c_null_ptr, c_null_ptr, repository)
  end subroutine papyruskv_init

  subroutine papyruskv_finalize(ierror)
    integer, intent(out) :: ierror
    ierror = c_finalize()
  end subroutine papyruskv_finalize

  subroutine papyruskv_open(name, flags, db, ierror)
    character(kind=c_char), intent(in) :: name(*)
    integer, intent(in) :: flags
    integer, intent(out) :: db, ierror
    ierror = c_open(name, flags, c_null_ptr, db)
  end subroutine papyruskv_open

  subroutine papyruskv_close(db, ierror)
    integer, intent(in) :: db
    integer, intent(out) :: ierror
    ierror = c_close(db)
  end subroutine papyruskv_close

  subroutine papyruskv_put(db, key, keylen, val, vallen, ierror)
    integer, intent(in) :: db
    character(kind=c_char), intent(in) :: key(*), val(*)
    integer(kind=8), intent(in) :: keylen, vallen
    integer, intent(out) :: ierror
    ierror = c_put(db, key, int(keylen, c_size_t), val, int(vallen, c_size_t))
  end subroutine papyruskv_put

  ! A disassociated VAL gets memory, which PAPYRUSKV_FREE takes back; an associated one is filled,
  ! and PAPYRUSKV_INVALID_ARGUMENT says that it is too small, with the length that it should have.
  subroutine papyruskv_get(db, key, keylen, val, vallen, ierror)
    integer, intent(in) :: db
    character(kind=c_char), intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    character(kind=c_char), pointer, intent(inout) :: val(:)
    integer(kind=8), intent(out) :: vallen
    integer, intent(out) :: ierror
    type(papyruskv_pos_t) :: pos
    call papyruskv_get_pos(db, key, keylen, val, vallen, pos, ierror)
  end subroutine papyruskv_get

  subroutine papyruskv_get_pos(db, key, keylen, val, vallen, pos, ierror)
    integer, intent(in) :: db
    character(kind=c_char), intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    character(kind=c_char), pointer, intent(inout) :: val(:)
    integer(kind=8), intent(out) :: vallen
    type(papyruskv_pos_t), intent(out) :: pos
    integer, intent(out) :: ierror
    type(c_ptr) :: bytes
    integer(c_size_t) :: length
    bytes = c_null_ptr
    length = 0
    pos%handle = c_null_ptr
    ierror = c_get_pos(db, key, int(keylen, c_size_t), bytes, length, pos)
    vallen = int(length, 8)
    if (ierror /= PAPYRUSKV_OK) return
    if (associated(val)) then
      call fill(val, bytes, vallen, ierror)
    else
      call c_f_pointer(bytes, val, [vallen])
    end if
  end subroutine papyruskv_get_pos

  ! Copies to memory of the program, and frees the library's.
  subroutine fill(val, bytes, length, ierror)
    character(kind=c_char), pointer, intent(in) :: val(:)
    type(c_ptr), intent(inout) :: bytes
    integer(kind=8), intent(in) :: length
    integer, intent(out) :: ierror
    character(kind=c_char), pointer :: from(:)
    integer(kind=8) :: i, first
    integer :: freed
    ierror = PAPYRUSKV_INVALID_ARGUMENT
    if (size(val, kind=8) >= length) then
      call c_f_pointer(bytes, from, [length])
      first = lbound(val, 1, kind=8)
      do i = 1, length
        val(first + i - 1) = from(i)
      end do
      ierror = PAPYRUSKV_OK
    end if
    freed = c_free(bytes)
  end subroutine fill

  subroutine papyruskv_delete(db, key, keylen, ierror)
    integer, intent(in) :: db
    character(kind=c_char), intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    integer, intent(out) :: ierror
    ierror = c_delete(db, key, int(keylen, c_size_t))
  end subroutine papyruskv_delete

  ! VAL is disassociated afterwards.
  subroutine papyruskv_free(val, ierror)
    character(kind=c_char), pointer, intent(inout) :: val(:)
    integer, intent(out) :: ierror
    type(c_ptr) :: bytes
    ierror = PAPYRUSKV_OK
    if (.not. associated(val)) return
    bytes = c_loc(val)
    nullify(val)
    ierror = c_free(bytes)
  end subroutine papyruskv_free

  subroutine papyruskv_fence(db, level, ierror)
    integer, intent(in) :: db, level
    integer, intent(out) :: ierror
    ierror = c_fence(db, level)
  end subroutine papyruskv_fence

  subroutine papyruskv_barrier(db, level, ierror)
    integer, intent(in) :: db, level
    integer, intent(out) :: ierror
    ierror = c_barrier(db, level)
  end subroutine papyruskv_barrier

  subroutine papyruskv_signal_notify(signum, ranks, count, ierror)
    integer, intent(in) :: signum, ranks(*), count
    integer, intent(out) :: ierror
    ierror = c_signal_notify(signum, ranks, count)
  end subroutine papyruskv_signal_notify

  subroutine papyruskv_signal_wait(signum, ranks, count, ierror)
    integer, intent(in) :: signum, ranks(*), count
    integer, intent(out) :: ierror
    ierror = c_signal_wait(signum, ranks, count)
  end subroutine papyruskv_signal_wait

  subroutine papyruskv_consistency(db, consistency, ierror)
    integer, intent(in) :: db, consistency
    integer, intent(out) :: ierror
    ierror = c_consistency(db, consistency)
  end subroutine papyruskv_consistency

  subroutine papyruskv_protect(db, prot, ierror)
    integer, intent(in) :: db, prot
    integer, intent(out) :: ierror
    ierror = c_protect(db, prot)
  end subroutine papyruskv_protect

  subroutine papyruskv_destroy(db, event, ierror)
    integer, intent(in) :: db
    integer, intent(out) :: event, ierror
    ierror = c_destroy(db, event)
  end subroutine papyruskv_destroy

  subroutine papyruskv_checkpoint(db, path, event, ierror)
    integer, intent(in) :: db
    character(kind=c_char), intent(in) :: path(*)
    integer, intent(out) :: event, ierror
    ierror = c_checkpoint(db, path, event)
  end subroutine papyruskv_checkpoint

  subroutine papyruskv_restart(path, name, flags, db, event, ierror)
    character(kind=c_char), intent(in) :: path(*), name(*)
    integer, intent(in) :: flags
    integer, intent(out) :: db, event, ierror
    ierror = c_restart(path, name, flags, c_null_ptr, db, event)
  end subroutine papyruskv_restart

  subroutine papyruskv_wait(db, event, ierror)
    integer, intent(in) :: db, event
    integer, intent(out) :: ierror
    ierror = c_wait(db, event)
  end subroutine papyruskv_wait

  subroutine papyruskv_iter_local(db, iter, ierror)
    integer, intent(in) :: db
    type(papyruskv_iter_t), intent(inout) :: iter
    integer, intent(out) :: ierror
    iter%iter = c_null_ptr
    ierror = c_iter_local(db, iter%iter)
    call show(iter, ierror)
  end subroutine papyruskv_iter_local

  subroutine papyruskv_iter_next(db, iter, ierror)
    integer, intent(in) :: db
    type(papyruskv_iter_t), intent(inout) :: iter
    integer, intent(out) :: ierror
    ierror = c_iter_next(db, iter%iter)
    call show(iter, ierror)
  end subroutine papyruskv_iter_next

  ! What C shows of the pair, as Fortran's pointers. After a failure the walk may be gone, with its
  ! database.
  subroutine show(iter, ierror)
    type(papyruskv_iter_t), intent(inout) :: iter
    integer, intent(in) :: ierror
    type(c_iter_t), pointer :: seen
    nullify(iter%key, iter%val)
    iter%keylen = 0
    iter%vallen = 0
    if (ierror /= PAPYRUSKV_OK .or. .not. c_associated(iter%iter)) return
    call c_f_pointer(iter%iter, seen)
    iter%keylen = int(seen%keylen, 8)
    iter%vallen = int(seen%vallen, 8)
    call c_f_pointer(seen%key, iter%key, [iter%keylen])
    call c_f_pointer(seen%val, iter%val, [iter%vallen])
  end subroutine show

  subroutine papyruskv_update(db, key, keylen, pos, fnid, userin, userinlen, userout, useroutlen, &
      ierror)
    integer, intent(in) :: db, fnid
    character(kind=c_char), intent(in) :: key(*), userin(*)
    integer(kind=8), intent(in) :: keylen, userinlen, useroutlen
    type(papyruskv_pos_t), intent(in) :: pos
    character(kind=c_char), intent(inout) :: userout(*)
    integer, intent(out) :: ierror
    ierror = c_update(db, key, int(keylen, c_size_t), pos, fnid, userin, &
      int(userinlen, c_size_t), userout, int(useroutlen, c_size_t))
  end subroutine papyruskv_update

end module papyrus
